// The pool of MemTables: what is left of a log segment whose making failed.
#include "lsm/memtable/memtable_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "io/sim/sim_file_system.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::memtable_pool_test {
namespace {

// A file of another size gives way to a new one, whose name is not durable yet. The failed attempt
// leaves it, with the right size.
TEST(MemTablePool, AReplacedFileGetsADurableNameAlsoIfTheFirstAttemptFailed) {
  const auto disk = io::NewSimFileSystem();
  ASSERT_OK(disk->MakeDirectory("/db"));
  ASSERT_OK(io::WriteFile(*disk, "/db/" + LogSegmentName(0), "of another size"));
  const auto faults = io::NewFaultFileSystem(*disk);
  PoolConfig config;
  config.fs = faults.get();
  config.directory = "/db";
  config.options.memtable_bytes = 128 << 10;
  config.found = {0};
  const auto pool = MemTablePool::Create(config);
  ASSERT_OK(pool.status());

  faults->FailAt(io::kFaultSync, 1, 1, Code::kNoSpace);
  const auto prepare = [&] { return (*pool)->Prepare(MemTablePool::IndexPages::kNow).status(); };
  EXPECT_CODE(prepare(), Code::kNoSpace);
  int syncs = 0;
  faults->BeforeCalls(io::kFaultSync, [&](const std::string&) { ++syncs; });
  EXPECT_OK(prepare());
  EXPECT_EQ(syncs, 1) << "of the directory";
}

}  // namespace
}  // namespace quire::lsm::memtable_pool_test
