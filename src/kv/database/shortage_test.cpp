// A rank to which the system refuses a thread: all ranks receive the same code, none waits for the
// deadline, and the same calls work when there are threads again.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/threads/thread.h"
#include "kv/database/sim_cluster_testing.h"
#include "tests/support/blocked_signals.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::shortage_test {
namespace {

constexpr int kRanks = 3;

SimCluster::Options FreeRanks() {
  SimCluster::Options options;
  options.rank_count = kRanks;
  options.deterministic = false;
  options.context.timeout_ms = 20'000;
  return options;
}

// The codes that each rank received from opening a context, and a database in it.
struct Heard {
  Code context = Code::kOk;
  Code database = Code::kOk;
  bool operator==(const Heard&) const = default;
};

class Threads : public testing::Test {
 protected:
  ~Threads() override { base::FailThreadStarts(0, 0); }

  // Makes the n-th start of a thread fail. Returns the codes of rank 0, which are those of all
  // ranks.
  Heard OpenWithout(int n) {
    std::vector<Heard> heard(kRanks);
    base::FailThreadStarts(n, 1);
    cluster_.RunRaw([&](int rank, Result<std::unique_ptr<Context>> context) {
      Heard& mine = heard[static_cast<size_t>(rank)];
      mine.context = context.status().code();
      if (!context.ok()) return;
      auto database = (*context)->Open("db", SimCluster::SmallDatabase());
      mine.database = database.status().code();
      if (!database.ok()) {
        EXPECT_NE(database.status().message().find("thread"), std::string::npos)
            << database.status().ToString();
        database = (*context)->Open("db", SimCluster::SmallDatabase());
        ASSERT_OK(database.status());  // the shortage has passed
      }
      ASSERT_OK((*database)->Put("of " + std::to_string(rank), "v"));
      ASSERT_OK((*database)->Barrier(Level::kMemTable));
      for (int other = 0; other < kRanks; ++other) {
        EXPECT_EQ(SimCluster::ValueOf(**database, "of " + std::to_string(other)), "v");
      }
      ASSERT_OK((*database)->Close());
    });
    failed_ = base::ThreadStarts() > n;
    for (const Heard& other : heard) EXPECT_EQ(other, heard[0]) << "thread " << n;
    return heard[0];
  }

  SimCluster cluster_{FreeRanks()};
  bool failed_ = false;
};

TEST_F(Threads, ARefusedThreadIsReportedAlikeOnAllRanks) {
  int contexts = 0;
  int databases = 0;
  for (int n = 0;; ++n) {
    const Heard heard = OpenWithout(n);
    if (!failed_) break;
    ASSERT_LT(n, 100);
    contexts += heard.context == Code::kOutOfMemory ? 1 : 0;
    databases += heard.database == Code::kOutOfMemory ? 1 : 0;
    EXPECT_TRUE(heard.context == Code::kOutOfMemory || heard.database == Code::kOutOfMemory) << n;
  }
  // Pool, blocking executor and handler of each rank; its dispatcher.
  EXPECT_GE(contexts, kRanks * 3);
  EXPECT_EQ(databases, kRanks);
}

TEST_F(Threads, AllBlockTheSignalsOfTheProgram) {
  cluster_.RunDatabase(SimCluster::SmallDatabase(), [](int, Context& context, Database& db) {
    ASSERT_OK(db.Barrier(Level::kSsTable));
    std::vector<std::string> names;
    for (const auto& [id, thread] : test::OtherThreads()) {
      if (!thread.name.starts_with("quire-")) continue;
      names.push_back(thread.name);
      for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP, SIGALRM, SIGCHLD}) {
        EXPECT_TRUE(thread.Blocks(signal)) << thread.name << " takes signal " << signal;
      }
    }
    for (const char* const name :
         {"quire-work", "quire-transfer", "quire-handler", "quire-dispatch"}) {
      EXPECT_GE(std::count(names.begin(), names.end(), name), kRanks) << name;
    }
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.Close());
  });
}

}  // namespace
}  // namespace quire::kv::shortage_test
