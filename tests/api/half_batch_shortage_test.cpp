// An owner is refused its n-th allocation, for n = 0, 1, ..., while it applies a batch of updates:
// as many are reported lost as were not applied, or their outcome is unknown. A program that
// repeats those that are lost counts none twice.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/core/out_of_memory.h"
#include "child_process.h"
#include "failing_allocations.h"
#include "kv/database/sim_cluster_testing.h"
#include "quire/database.h"

namespace quire::kv {
namespace {

using test::kRan;
using test::kTooFar;
using test::kWrong;
using test::Outcome;

constexpr uint32_t kIncrement = 1;
constexpr int kUpdates = 40;

Status Increment(Slice /*key*/, const Slice* present, Slice /*argument*/, std::string* updated) {
  uint64_t count = 0;
  if (present != nullptr) std::memcpy(&count, present->data(), sizeof count);
  ++count;
  updated->assign(reinterpret_cast<const char*>(&count), sizeof count);
  return Status();
}

uint64_t CountIn(Database& database, const std::string& key) {
  std::string value;
  uint64_t count = 0;
  if (database.Get(key, &value).ok()) std::memcpy(&count, value.data(), sizeof count);
  return count;
}

// Returns the number before " operations lost"; 0 if there is none.
int LostIn(const Status& fenced) {
  int lost = 0;
  const std::string text(fenced.message());
  if (text.find(" lost") == std::string::npos) return 0;
  return std::sscanf(text.c_str(), "%d operation", &lost) == 1 ? lost : 0;
}

Outcome RunWithout(int64_t n) {
  SimCluster::Options options;
  options.rank_count = 2;
  options.context.timeout_ms = 20'000;
  Outcome outcome = kRan;
  SimCluster(options).RunDatabase(
      SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& database) {
        static_cast<void>(database.RegisterUpdate(kIncrement, Increment));
        const std::string key = SimCluster::KeyOwnedBy(database, 1, "counter");
        std::vector<std::string> others;
        for (int i = 0; i < kUpdates; ++i) {
          others.push_back(SimCluster::KeyOwnedBy(database, 1, "other" + std::to_string(i)));
        }
        static_cast<void>(context.Barrier());
        if (rank == 0) {
          // Each put between two updates ends a group: all of them are one message.
          for (int i = 0; i < kUpdates; ++i) {
            static_cast<void>(database.Update(key, kIncrement, {}));
            static_cast<void>(database.Put(others[static_cast<size_t>(i)], "v"));
          }
          test::FailAllocation(n);
          const Status fenced = base::OrOutOfMemory([&] { return database.Fence(); });
          if (!test::AllocationFailed()) outcome = kTooFar;
          const Status again = base::OrOutOfMemory([&] { return database.Fence(); });
          auto applied = static_cast<int>(CountIn(database, key));
          for (const std::string& other : others) {
            std::string value;
            if (database.Get(other, &value).ok()) ++applied;
          }
          const bool twice = applied + LostIn(fenced) + LostIn(again) > 2 * kUpdates;
          const bool silent = fenced.ok() && again.ok() && applied != 2 * kUpdates;
          if (outcome == kRan && (twice || silent)) {
            std::fprintf(stderr, "%d of %d are applied; Fence: %s; then: %s\n", applied,
                         2 * kUpdates, fenced.ToString().c_str(), again.ToString().c_str());
            outcome = kWrong;
          }
        }
        static_cast<void>(context.Barrier());
        static_cast<void>(database.Close());
      });
  return outcome;
}

TEST(HalfABatch, IsReportedLostToTheUpdate) {
  test::FailInTurn([](int64_t n) { return test::InProcess([n] { return RunWithout(n); }); });
}

}  // namespace
}  // namespace quire::kv
