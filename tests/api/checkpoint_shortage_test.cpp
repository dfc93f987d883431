// From the moment on in which rank 0 publishes a checkpoint with a rename, the n-th allocation of
// any rank fails, for n = 0, 1, ...: no event ends well without a checkpoint, and none fails beside
// one unless its text says that this is not known.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "base/core/out_of_memory.h"
#include "child_process.h"
#include "failing_allocations.h"
#include "io/files/machine.h"
#include "kv/database/sim_cluster_testing.h"
#include "kv/persistence/checkpoint_files.h"
#include "quire/database.h"
#include "tests/support/temp_directory.h"

namespace quire::kv {
namespace {

using test::InProcess;
using test::kRan;
using test::kTooFar;
using test::kWrong;
using test::Outcome;

constexpr int kRanks = 3;
const std::string kPlace = "/checkpoints";

// The result of a rank's checkpoint. Takes no memory.
struct Heard {
  Code code = Code::kTimedOut;
  std::array<char, 400> text = {};
};
using AllHeard = std::array<Heard, kRanks>;

bool SaysNotKnown(const Heard& heard) {
  return std::string(heard.text.data()).find("is not known") != std::string::npos;
}

// Returns whether the results of the ranks agree with the checkpoint that exists, or does not. Rank
// 0, which publishes it, knows.
bool IsRight(const AllHeard& all, bool there) {
  bool right = (all[0].code == Code::kOk) == there;
  for (const Heard& heard : all) {
    const bool well = heard.code == Code::kOk;
    right = right && (well == there || (!well && SaysNotKnown(heard)));
  }
  for (size_t rank = 0; !right && rank < kRanks; ++rank) {
    std::fprintf(stderr, "rank %zu: %s: %s; the checkpoint is %s\n", rank,
                 CodeName(all[rank].code), all[rank].text.data(), there ? "there" : "not there");
  }
  return right;
}

bool IsThere(io::FileSystem& disk, uint64_t number) {
  const auto found = FindCheckpoints(disk, CheckpointHome(kPlace, "db"));
  return found.ok() && std::any_of(found->begin(), found->end(), [&](const auto& one) {
    return one.number == number && one.state == CheckpointState::kComplete;
  });
}

void TakeCheckpoint(Database& db, Heard* heard) {
  const Status status = base::OrOutOfMemory([&]() -> Status {
    QUIRE_ASSIGN_OR_RETURN(const auto event, db.Checkpoint(kPlace, {.keep = 1}));
    return event->Wait();
  });
  heard->code = status.code();
  Slice(status.message()).copy(heard->text.data(), heard->text.size() - 1);
}

Outcome RunWithout(int64_t n) {
  const auto disk = io::NewSimFileSystem();
  const auto faults = io::NewFaultFileSystem(*disk);
  bool armed = false;
  faults->BeforeCalls(io::kFaultRename, [&](const std::string& path) {
    if (armed && path.ends_with("/.partial-2")) test::FailAllocation(n);
  });
  SimCluster::Options options;
  options.rank_count = kRanks;
  options.context.timeout_ms = 20'000;
  options.file_system = [&](int) { return faults.get(); };
  AllHeard all;
  bool first = true;  // the ranks run one at a time
  bool failed = false;
  SimCluster(options).RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context,
                                                                   Database& db) {
    Heard before;
    EXPECT_TRUE(db.Put("key " + std::to_string(rank), "value").ok());
    TakeCheckpoint(db, &before);
    EXPECT_EQ(before.code, Code::kOk) << before.text.data();
    EXPECT_TRUE(context.Barrier().ok());
    armed = true;
    TakeCheckpoint(db, &all[static_cast<size_t>(rank)]);
    // There is memory again from the first rank's end on.
    if (std::exchange(first, false)) failed = test::AllocationFailed();
  });
  if (!IsRight(all, IsThere(*disk, 2))) return kWrong;
  return failed ? kRan : kTooFar;
}

TEST(CheckpointShortage, NoEventFailsBesideACheckpointThatIsThere) {
  int64_t n = 0;
  for (Outcome outcome = kRan; outcome != kTooFar; ++n) {
    outcome = InProcess([&] { return RunWithout(n); });
    EXPECT_TRUE(outcome == kRan || outcome == kTooFar) << "allocation " << n << ": " << outcome;
    ASSERT_LT(n, 5000);
  }
  EXPECT_GT(n, 20) << "so few allocations";
}

// With threads of the library, which no caller protects from what they throw.
Outcome CheckpointsWithPauses(const std::string& place) {
  auto context = Context::OpenSerial(place + "/repository", {});
  if (!context.ok()) return kWrong;
  auto db = (*context)->Open("db", {});
  if (!db.ok()) return kWrong;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 300; ++i) {
      const std::string key = "key " + std::to_string(1000 * round + i);
      if (!(*db)->Put(key, std::string(500, 'v')).ok()) return kWrong;
    }
    const auto event = (*db)->Checkpoint(place + "/checkpoints", {.keep = 1});
    if (!event.ok()) return kWrong;
    test::FailAllAllocations();
    io::RealClock().SleepNs(3'000'000);
    test::AllowAllocations();
    const Code code = (*event)->Wait().code();
    if (code != Code::kOk && code != Code::kOutOfMemory) return kWrong;
  }
  const auto event = (*db)->Checkpoint(place + "/checkpoints", {.keep = 1});
  return event.ok() && (*event)->Wait().ok() && (*db)->Close().ok() ? kRan : kWrong;
}

TEST(CheckpointShortage, AMomentWithoutMemoryStopsNoProgram) {
  const test::TempDirectory directory;
  EXPECT_EQ(InProcess([&] { return CheckpointsWithPauses(directory.path()); }), kRan);
}

}  // namespace
}  // namespace quire::kv
