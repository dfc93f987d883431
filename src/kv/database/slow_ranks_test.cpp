// A rank that is stopped for longer than the others wait, anywhere in a collective call: all ranks
// return the same code.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/core/random.h"
#include "kv/database/persistence_testing.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::kv::slow_ranks_test {
namespace {

constexpr int kRanks = 3;
constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kTimeoutMs = 1000;
constexpr char kPath[] = "/checkpoints";

// `db`: null, unless the call is one of a database.
using Call = std::function<Status(Context& context, Database* db)>;

// Runs a call and the barriers after it; returns the codes of each rank.
constexpr size_t kCalls = 12;
using Heard = std::array<std::array<Status, kRanks>, kCalls>;

struct Slow {
  int rank;
  uint64_t calls;  // of the transport, until it is stopped
  uint64_t ms;
};

bool Same(const std::array<Status, kRanks>& all) {
  return std::all_of(all.begin(), all.end(),
                     [&](const Status& one) { return one.code() == all[0].code(); });
}

bool AnyOk(const std::array<Status, kRanks>& all) {
  return std::any_of(all.begin(), all.end(), [](const Status& one) { return one.ok(); });
}

std::string Text(const std::array<Status, kRanks>& all) {
  std::string text;
  for (const Status& one : all) text += "\n  " + one.ToString();
  return text;
}

// Returns the result of an operation in the background. A Wait may time out on one rank alone, and
// may be called again.
Status EndOf(Result<std::unique_ptr<Event>> event) {
  if (!event.ok()) return event.status();
  Status ended = (*event)->Wait();
  for (int i = 0; i < 20 && ended.code() == Code::kTimedOut; ++i) ended = (*event)->Wait();
  return ended;
}

// So that no rank finds that another has left, as far as that is possible.
void LeaveTogether(Context& context) {
  std::vector<int> all;
  for (int rank = 0; rank < kRanks; ++rank) all.push_back(rank);
  static_cast<void>(context.Notify(1, all));  // one may be stopped
  Status met(Code::kTimedOut);
  for (int i = 0; i < 10 && met.code() == Code::kTimedOut; ++i) met = context.WaitSignal(1, all);
}

class SlowRank : public testing::Test {
 protected:
  static SimCluster::Options Ranks(uint64_t seed) {
    SimCluster::Options ranks;
    ranks.rank_count = kRanks;
    ranks.seed = seed;
    ranks.context.timeout_ms = kTimeoutMs;
    return ranks;
  }

  static void WritePairs(SimCluster& cluster) {
    cluster.RunDatabase(SimCluster::SmallDatabase(), [](int rank, Context&, Database& db) {
      for (int i = 0; i < 20; ++i) {
        ASSERT_OK(db.Put("key" + std::to_string(rank) + "." + std::to_string(i), "value"));
      }
      ASSERT_OK(WaitFor(db.Checkpoint(kPath, {})));
      ASSERT_OK(db.Close());
    });
  }

  static Heard CallBeside(SimCluster& cluster, const Slow& slow, bool opens, const Call& call) {
    Heard heard;
    cluster.Run([&](int rank, Context& context) {
      std::unique_ptr<Database> db;
      if (opens) db = OpenAndWrite(rank, context);
      if (rank == slow.rank) cluster.network().StopAfter(rank, slow.calls, slow.ms * kMs);
      const auto at = static_cast<size_t>(rank);
      heard[0][at] = call(context, db.get());
      for (size_t i = 1; i < kCalls; ++i) heard[i][at] = context.Barrier();
      LeaveTogether(context);
    });
    return heard;
  }

  // With pairs that the others own, on their way or in memory.
  static std::unique_ptr<Database> OpenAndWrite(int rank, Context& context) {
    auto db = context.Open("db", Existing());
    EXPECT_OK(db.status());
    for (int i = 0; db.ok() && i < 20; ++i) {
      EXPECT_OK((*db)->Put("new" + std::to_string(rank) + "." + std::to_string(i), "value"));
    }
    EXPECT_OK(context.Barrier());
    return db.ok() ? *std::move(db) : nullptr;
  }

  // Two ranks may part in the last message of a call: then the context refuses all later ones.
  void Expect(const Heard& heard, const Slow& slow) {
    SCOPED_TRACE("rank " + std::to_string(slow.rank) + " stopped for " + std::to_string(slow.ms) +
                 " ms after " + std::to_string(slow.calls) + " calls");
    const auto first = std::find_if_not(heard.begin(), heard.end(), Same);
    if (first != heard.begin()) ++agreed_[heard[0][0].code()];
    if (heard.end() - first < 9) return;  // no call, or one that has too few after it
    for (auto later = first + 1; later < heard.end(); ++later) {
      EXPECT_FALSE(AnyOk(*later)) << Text(heard[0]) << Text(*first) << Text(*later);
    }
    for (const Status& last : heard.back()) {
      EXPECT_CODE(last, Code::kPeerFailed);
      EXPECT_NE(last.message().find("reopen it on all ranks"), std::string::npos)
          << last.ToString();
    }
  }

  // Stops each rank in turn, anywhere in the call or soon after it: for a little more than the
  // deadline, and for longer than all waits of the call.
  void TryAll(uint64_t calls_max, bool opens, const Call& call) {
    uint64_t seed = test::FirstSeed();
    base::Random random(seed);
    const int64_t tries = std::max<int64_t>(20, test::ScaledCount(80)) / (opens ? 2 : 1);
    for (const uint64_t ms : {kTimeoutMs + 100, kTimeoutMs * 5 / 2, kTimeoutMs * 5}) {
      for (int rank = 0; rank < kRanks; ++rank) {
        for (int64_t i = 0; i < tries; ++i) {
          const Slow slow{rank, 1 + random.Below(calls_max), ms};
          SimCluster cluster(Ranks(++seed));
          WritePairs(cluster);
          Expect(CallBeside(cluster, slow, opens, call), slow);
          if (HasFailure()) return;
        }
      }
    }
    EXPECT_GT(agreed_[Code::kOk], 0);
    EXPECT_GT(agreed_[Code::kTimedOut], 0);
  }

  std::map<Code, int> agreed_;
};

TEST_F(SlowRank, DestroyReturnsTheSameCodeOnAllRanks) {
  TryAll(400, false, [](Context& context, Database*) { return context.Destroy("db"); });
}

TEST_F(SlowRank, AnOpenThatMovesPairsReturnsTheSameCodeOnAllRanks) {
  TryAll(400, false, [](Context& context, Database*) {
    DatabaseOptions options = Existing();
    options.force_redistribute = true;
    return context.Open("db", options).status();
  });
}

TEST_F(SlowRank, RestartReturnsTheSameCodeOnAllRanks) {
  TryAll(400, false, [](Context& context, Database*) {
    return EndOf(context.Restart(kPath, "db", {.replace = true}));
  });
}

TEST_F(SlowRank, CheckpointReturnsTheSameCodeOnAllRanks) {
  TryAll(400, true, [](Context&, Database* db) { return EndOf(db->Checkpoint("/other", {})); });
}

TEST_F(SlowRank, BarrierReturnsTheSameCodeOnAllRanks) {
  TryAll(200, true, [](Context&, Database* db) { return db->Barrier(Level::kMemTable); });
}

TEST_F(SlowRank, ABarrierThatFlushesReturnsTheSameCodeOnAllRanks) {
  TryAll(200, true, [](Context&, Database* db) { return db->Barrier(Level::kSsTable); });
}

TEST_F(SlowRank, ProtectReturnsTheSameCodeOnAllRanks) {
  TryAll(200, true, [](Context&, Database* db) { return db->Protect(Protection::kReadOnly); });
}

TEST_F(SlowRank, SetConsistencyReturnsTheSameCodeOnAllRanks) {
  TryAll(200, true, [](Context&, Database* db) {
    return db->SetConsistency(Consistency::kSequential);
  });
}

TEST_F(SlowRank, CloseReturnsTheSameCodeOnAllRanks) {
  TryAll(200, true, [](Context&, Database* db) { return db->Close(); });
}

}  // namespace
}  // namespace quire::kv::slow_ranks_test
