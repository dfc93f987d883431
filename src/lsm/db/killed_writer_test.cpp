// Writers that die amid the copy of a large value which looks like the headers of records.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/core/random.h"
#include "base/threads/executor.h"
#include "base/threads/sync_point.h"
#include "io/files/machine.h"
#include "log/segment.h"
#include "lsm/db/db_testing.h"
#include "lsm/memtable/memtable.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::lsm::killed_writer_test {
namespace {

constexpr uint64_t kValueBytes = 3 << 20;
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kBootId = 42;

char* Memory(uint64_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return static_cast<char*>(memory);
}

// Returns a value of integers that look like headers of puts of some 100 KiB each, behind a key of
// four bytes. A page near the end cannot be read: a process that copies it dies.
Slice DeadlyValue() {
  char* const bytes = Memory(kValueBytes);
  base::Random random(1);
  for (uint64_t at = 0; at < kValueBytes; at += 8) {
    const uint64_t word = 65536 + random.Below(65536);
    std::memcpy(bytes + at, &word, sizeof word);
  }
  ::mprotect(bytes + kValueBytes - 16 * kPageBytes, kPageBytes, PROT_NONE);
  return Slice(bytes, kValueBytes);
}

// Runs `body` in a process of its own, which is to die in it.
void DieIn(const std::function<void()>& body) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const struct rlimit none = {0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::signal(SIGSEGV, SIG_DFL);
    body();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "it was to die in its copy";
}

// A segment that is used again, full of such integers up to `stale_end`.
struct StaleSegment {
  StaleSegment(uint64_t bytes, uint64_t stale_end)
      : index(Memory(IndexBytes(bytes))), data(Memory(bytes)) {
    header.generation = 7;
    header.capacity = bytes;
    header.boot_id = kBootId;
    const Slice stale = DeadlyValue();
    const uint64_t piece = std::min(bytes / 2, kValueBytes / 2);
    for (uint64_t at = 4096 + 12; at + piece < stale_end; at += piece) {
      std::memcpy(data + at, stale.data(), piece);
    }
    log::EncodeSegmentHeader(header, data);
  }
  std::unique_ptr<MemTable> NewTable(io::MappedFile* stored = nullptr) const {
    return std::make_unique<MemTable>(index, data, header.capacity, header.generation, 0, stored);
  }
  // As an owner marks it: 8 KiB behind what was reserved last.
  void MarkReserved(uint64_t record_bytes) const {
    log::MarkReserved(data, header.generation, 4096 + 8192 + 200 + record_bytes);
  }
  // On this node and on another.
  void ExpectReplayed(const std::vector<std::string>& there) const {
    for (const uint64_t boot : {kBootId, kBootId + 1}) {
      std::vector<std::string> keys;
      const auto report =
          log::Replay({data}, header, boot, "segment", [&](uint64_t, const char* record) {
            keys.emplace_back(log::KeyOf(record));
            return Status();
          });
      ASSERT_OK(report.status());
      EXPECT_EQ(keys, there);
      EXPECT_EQ(report->torn_bytes, 0u);
    }
  }

  log::SegmentHeader header;
  char* const index;
  char* const data;
};

using log::RecordType;
using Write = std::function<bool(MemTable& table, Slice deadly)>;

std::vector<engine::WriteOp> Ops(Slice deadly) {
  return {{RecordType::kPut, "1st", "first"},
          {RecordType::kPut, "bbbb", deadly},
          {RecordType::kPut, "last", deadly}};
}

// A way to write, how many large values it stores, and the keys that are there if it dies.
const std::tuple<const char*, uint64_t, Write, std::vector<std::string>> kWrites[] = {
    {"put", 1,
     [](MemTable& table, Slice deadly) {
       return table.Add({RecordType::kPut, "bbbb", deadly}, nullptr);
     },
     {"acknowledged"}},
    {"batch", 2,
     [](MemTable& table, Slice deadly) { return table.AddBatch(Ops(deadly), true, nullptr); },
     {"acknowledged"}},
    {"puts", 2,
     [](MemTable& table, Slice deadly) { return table.AddBatch(Ops(deadly), false, nullptr); },
     {"acknowledged", "1st"}},
};

// Behind the writer that died, the memory of the segment contains records of an earlier use.
TEST(KilledWriter, LeavesAPieceThatAReplayStepsOver) {
  constexpr uint64_t kBytes = 16 << 20;
  for (const auto& [name, values, write, there] : kWrites) {
    SCOPED_TRACE(name);
    const StaleSegment segment(kBytes, kBytes / 2);
    const Slice deadly = DeadlyValue();
    DieIn([&, &write = write] {
      const auto table = segment.NewTable();
      if (table->Add({RecordType::kPut, "acknowledged", "1"}, nullptr)) write(*table, deadly);
    });
    segment.MarkReserved(values * kValueBytes);
    segment.ExpectReplayed(there);
  }
}

// Ends the process once a writer has reserved its piece and not yet stored to it, and another
// writer's record lies behind it.
class KilledBeforeTheFirstStore : public base::SyncPointListener {
 public:
  KilledBeforeTheFirstStore(MemTable* table, uint64_t later_bytes)
      : table_(*table), later_(later_bytes, 'l') {}
  void Reach(const char* name) override {
    if (std::strcmp(name, "lsm.record.unsealed") != 0 || reached_.exchange(true)) return;
    std::thread([this] {
      if (table_.Add({RecordType::kPut, "later", later_}, nullptr)) {
        ::kill(::getpid(), SIGKILL);
      }
    }).join();
  }

 private:
  MemTable& table_;
  const std::string later_;
  std::atomic<bool> reached_{false};
};

TEST(KilledWriter, LeavesNothingBehindThatHidesLaterRecords) {
  for (const uint64_t bytes : {64 << 10, 16 << 20}) {
    for (const uint64_t value_bytes : {uint64_t{100}, uint64_t{900}, bytes / 16}) {
      SCOPED_TRACE(std::to_string(value_bytes) + " bytes in a segment of " + std::to_string(bytes));
      const StaleSegment segment(bytes, bytes);
      DieIn([&] {
        const auto table = segment.NewTable();
        if (!table->Add({RecordType::kPut, "acknowledged", "1"}, nullptr)) return;
        KilledBeforeTheFirstStore killed(table.get(), bytes / 16);
        const base::ScopedSyncPoints installed(&killed);
        static_cast<void>(
            table->Add({RecordType::kPut, "bbbb", std::string(value_bytes, 'b')}, nullptr));
      });
      segment.MarkReserved(value_bytes + bytes / 16);
      segment.ExpectReplayed({"acknowledged", "later"});
    }
  }
}

// Kills the process where the pages of a piece are brought into memory.
class DeadlyPages : public io::MappedFile {
 public:
  explicit DeadlyPages(uint64_t bytes) { LimitRoom(bytes); }
  Status Sync(uint64_t, uint64_t) override { return Status(); }
  void Prefault(uint64_t, uint64_t) override {
    if (deadly) ::kill(::getpid(), SIGKILL);
  }
  const std::string& path() const override { return path_; }
  bool deadly = false;

 private:
  const std::string path_ = "memory";
};

// The log's mark does not cover what an earlier use left there.
TEST(KilledWriter, LeavesNoPieceBelowTheMarkThatIsNotSealed) {
  constexpr uint64_t kBytes = 16 << 20;
  const StaleSegment segment(kBytes, kBytes);
  DieIn([&] {
    DeadlyPages pages(kBytes);
    const auto table = segment.NewTable(&pages);
    if (!table->Add({RecordType::kPut, "acknowledged", "1"}, nullptr)) return;
    pages.deadly = true;
    static_cast<void>(table->Add({RecordType::kPut, "bbbb", std::string(4 << 20, 'b')}, nullptr));
  });
  segment.ExpectReplayed({"acknowledged"});
}

struct Owner {
  explicit Owner(const std::string& directory) : executor(base::NewManualExecutor()) {
    engine::EngineEnvironment environment;
    environment.fs = &io::PosixFileSystem();
    environment.executor = executor.get();
    StorageOptions options;
    options.value_separation_bytes_min = 64 << 20;
    Result<std::unique_ptr<Db>> opened =
        Db::Open(environment, directory, options, engine::OpenFlags::kOpenOrCreate);
    status = opened.status();
    if (opened.ok()) db = std::move(*opened);
  }
  std::shared_ptr<base::Executor> executor;
  Status status;
  std::unique_ptr<Db> db;
};

TEST(KilledWriter, LosesNothingThatWasAcknowledged) {
  const test::TempDirectory directory(test::PlaceInMemory());
  DieIn([&] {
    Owner owner(directory / "db");
    if (owner.db == nullptr || !owner.db->Put("acknowledged", "1").ok()) return;
    static_cast<void>(owner.db->Put("bbbb", DeadlyValue()));
  });
  Owner next(directory / "db");
  ASSERT_OK(next.status);
  EXPECT_EQ(GetText(*next.db, "acknowledged"), "1");
  EXPECT_EQ(GetText(*next.db, "bbbb"), "<absent>");
  EXPECT_OK(next.db->Put("bbbb", "2"));
}

}  // namespace
}  // namespace quire::lsm::killed_writer_test
