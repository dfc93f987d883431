// Updates and a log sink that block, and a log sink that throws and calls Quire, on the thread
// that serves other ranks: what waits for them ends by its deadline, and then all goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/log_sink.h"
#include "base/threads/sync_point.h"
#include "kv/database/sim_cluster_testing.h"
#include "quire/log.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::slow_functions_test {
namespace {

using testing::HasSubstr;

constexpr uint32_t kBlocks = 1;
constexpr uint32_t kAppends = 2;
constexpr uint32_t kAnswers = 3;  // blocks, too
constexpr int kRanks = 3;
constexpr int kOwner = 1;
constexpr uint64_t kTimeoutMs = 1000;

Status Appends(Slice, const Slice* present, Slice argument, std::string* updated) {
  *updated = std::string(present == nullptr ? Slice() : *present) + std::string(argument);
  return Status();
}

// Logs a line once, when the thread that serves other ranks has a write for its rank.
class LogsWhereItServes final : public base::SyncPointListener {
 public:
  void Reach(const char* name) override {
    if (std::string_view(name) != "kv.serve.arrived" || logged_.exchange(true)) return;
    base::Log(LogLevel::kWarning, "a line of the thread that serves");
  }

 private:
  std::atomic<bool> logged_{false};
  base::ScopedSyncPoints installed_{this};
};

// The time is that of the simulated network: what blocks is stopped by it.
class SlowFunctions : public testing::Test {
 protected:
  void TearDown() override { SetLogSink({}); }
  // `program` runs at rank 0; the others serve until it ends.
  void Run(const std::function<void(Context& context, Database& db)>& program) {
    SimCluster::Options ranks;
    ranks.rank_count = kRanks;
    ranks.context.timeout_ms = kTimeoutMs;
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.consistency = Consistency::kSequential;
    SimCluster cluster(ranks);
    cluster_ = &cluster;
    cluster.RunDatabase(options, [&](int rank, Context& context, Database& db) {
      EXPECT_OK(db.RegisterUpdate(kAppends, Appends));
      EXPECT_OK(db.RegisterUpdate(kBlocks,
                                  [&](Slice, const Slice*, Slice, std::string* updated) {
                                    Block();
                                    *updated = "late";
                                    return Status();
                                  }));
      EXPECT_OK(db.RegisterAnsweringUpdate(
          kAnswers, [&](Slice, const Slice*, Slice, std::string* updated, std::string* answer) {
            Block();
            *updated = "late";
            *answer = "the answer of the call that was given up";
            return Status();
          }));
      EXPECT_OK(db.Barrier(Level::kMemTable));
      if (rank == 0) program(context, db);
      if (rank == 0) ended_.store(true);
      while (!ended_.load()) context.Progress();
      EXPECT_OK(db.Barrier(Level::kSsTable));
    });
  }
  // kOwner does nothing for four times as long as others wait for it.
  void Block() { cluster_->network().Stop(kOwner, 4 * kTimeoutMs * 1'000'000); }
  // Nothing gets through to kOwner, which has just blocked, until it goes on.
  static void ExpectBlockedThenAllGoesOn(Database& db) {
    const std::string there = SimCluster::KeyOwnedBy(db, kOwner, "other ");
    EXPECT_EQ(db.Put(there, "v").code(), Code::kTimedOut);
    EXPECT_EQ(db.Update(there, kAppends, "+").code(), Code::kTimedOut);
    EXPECT_OK(db.Put(SimCluster::KeyOwnedBy(db, 2), "v"));  // other ranks serve
    Status status(Code::kTimedOut);
    for (int i = 0; i < 10 && status.code() == Code::kTimedOut; ++i) status = db.Put(there, "v");
    EXPECT_OK(status);
    for (int owner = 0; owner < kRanks; ++owner) {
      const std::string key = SimCluster::KeyOwnedBy(db, owner, "after ");
      EXPECT_OK(db.Put(key, "a"));
      EXPECT_OK(db.Update(key, kAppends, "b"));
      EXPECT_EQ(SimCluster::ValueOf(db, key), "ab");
    }
  }

  SimCluster* cluster_ = nullptr;
  std::atomic<bool> ended_{false};
};

TEST_F(SlowFunctions, AnUpdateThatBlocksHoldsUpCallsToItsRankUntilTheyTimeOut) {
  Run([](Context&, Database& db) {
    const std::string slow = SimCluster::KeyOwnedBy(db, kOwner, "slow ");
    EXPECT_EQ(db.Update(slow, kBlocks, "").code(), Code::kTimedOut);
    ExpectBlockedThenAllGoesOn(db);
    EXPECT_EQ(SimCluster::ValueOf(db, slow), "late");  // applied after its caller went
  });
}

TEST_F(SlowFunctions, AnUpdateThatAnswersAndBlocksHoldsUpCallsToItsRankUntilTheyTimeOut) {
  Run([](Context&, Database& db) {
    const std::string slow = SimCluster::KeyOwnedBy(db, kOwner, "slow ");
    std::string answer;
    EXPECT_EQ(db.UpdateAndAnswer(slow, kAnswers, "", &answer).code(), Code::kTimedOut);
    ExpectBlockedThenAllGoesOn(db);
    EXPECT_EQ(answer, "");  // it arrives when no caller waits for it
    EXPECT_EQ(SimCluster::ValueOf(db, slow), "late");
  });
}

TEST_F(SlowFunctions, ALogSinkThatBlocksHoldsUpCallsToItsRankUntilTheyTimeOut) {
  Run([this](Context&, Database& db) {
    SetLogSink([this](LogLevel, const std::string&) { Block(); });
    const LogsWhereItServes logs;
    const std::string logged = SimCluster::KeyOwnedBy(db, kOwner, "logged ");
    EXPECT_EQ(db.Put(logged, "late").code(), Code::kTimedOut);
    ExpectBlockedThenAllGoesOn(db);
    EXPECT_EQ(SimCluster::ValueOf(db, logged), "late");
  });
}

TEST_F(SlowFunctions, ALogSinkOnTheServingThreadMayThrowAndItsCallsAreRefused) {
  std::mutex mutex;
  std::vector<Status> calls;
  std::atomic<Database*> at_owner{nullptr};
  SimCluster::Options ranks;
  ranks.rank_count = kRanks;
  ranks.deterministic = false;  // a thread serves other ranks
  DatabaseOptions options = SimCluster::SmallDatabase();
  options.consistency = Consistency::kSequential;
  SimCluster(ranks).RunDatabase(options, [&](int rank, Context& context, Database& db) {
    if (rank == kOwner) at_owner.store(&db);
    ASSERT_OK(context.Barrier());
    if (rank == 0) {
      SetLogSink([&](LogLevel, const std::string&) {
        std::string value;
        const std::lock_guard<std::mutex> lock(mutex);
        for (Database* const called : {at_owner.load(), &db}) {
          calls.push_back(called->Put("k", "v"));
          calls.push_back(called->Get("k", &value));
          calls.push_back(called->NewLocalIterator()->status());
          calls.push_back(called->Flush());
        }
        calls.push_back(context.Barrier());
        throw std::runtime_error("the disk of the log is full");
      });
      const LogsWhereItServes logs;
      const std::string key = SimCluster::KeyOwnedBy(db, kOwner, "logged ");
      EXPECT_OK(db.Put(key, "v"));
      EXPECT_EQ(SimCluster::ValueOf(db, key), "v");
    }
    ASSERT_OK(db.Barrier(Level::kSsTable));
  });
  EXPECT_EQ(calls.size(), 9u);
  for (const Status& status : calls) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("called inside a function"));
  }
}

}  // namespace
}  // namespace quire::kv::slow_functions_test
