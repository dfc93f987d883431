// The promises to a program when something else fails: power, a full device, a rank that does not
// answer; and the order in which its writes arrive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "io/sim/sim_file_system.h"
#include "kv/database/sim_cluster_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::promises_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// Ranks on machines of their own, in seeded turns.
SimCluster::Options Ranks(int count, uint64_t seed = 1) {
  SimCluster::Options options;
  options.rank_count = count;
  options.seed = seed;
  options.own_disks = true;
  return options;
}

// Opens "db" on every rank and runs `program`, which closes it, or leaves that to the end of the
// handle.
void RunDatabase(SimCluster& cluster, const DatabaseOptions& options,
                 const std::function<void(int rank, Context& context, Database& db)>& program) {
  cluster.Run([&](int rank, Context& context) {
    auto opened = context.Open("db", options);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    program(rank, context, **opened);
  });
}

std::string KeyOwnedBy(Database& db, int owner, const std::string& prefix = "k") {
  std::string key = prefix;
  while (db.Owner(key) != owner) key += "k";
  return key;
}

std::string ValueOf(Database& db, Slice key) {
  std::string value;
  const Status status = db.Get(key, &value);
  return status.ok() ? value : "<" + status.ToString() + ">";
}

TEST(Promises, ABarrierOfLevelSsTableSurvivesAPowerLossOnAllRanks) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SimCluster cluster(Ranks(3, seed));
    const auto key = [](int rank, int i) { return std::to_string(rank) + "/" + std::to_string(i); };
    RunDatabase(cluster, SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
      for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(db.Put(key(rank, i), "value " + std::to_string(i)).ok());
      }
      ASSERT_TRUE(db.Barrier(Level::kSsTable).ok());
      cluster.disk(rank).CrashAfter(0);
    });
    for (int rank = 0; rank < 3; ++rank) {
      cluster.disk(rank).Restart(io::CrashKind::kPower, seed + static_cast<uint64_t>(rank));
    }
    RunDatabase(cluster, SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
      for (int i = 0; i < 100; ++i) {
        ASSERT_EQ(ValueOf(db, key(rank, i)), "value " + std::to_string(i)) << "seed " << seed;
      }
      ASSERT_TRUE(db.Close().ok());
    });
  }
}

// The pages with the marks of a log and with the record of `value` did not reach rank 0's device.
void LosePagesOfTheLog(SimCluster& cluster, const std::string& value) {
  constexpr size_t kMarksAt = 1536;  // docs/format/segment.md
  io::SimFileSystem& disk = cluster.disk(0);
  const std::string directory = "/repository/db/gen-1/rank-0";
  const auto files = disk.List(directory);
  ASSERT_OK(files.status());
  int lost = 0;
  for (const io::FileInfo& file : *files) {
    if (!file.name.starts_with("log-")) continue;
    ASSERT_OK(disk.Damage(directory + "/" + file.name, [&](std::string* bytes) {
      bytes->replace(kMarksAt, 16, 16, '\0');
      const size_t at = bytes->find(value);
      if (at == std::string::npos) return;
      (*bytes)[at] ^= 1;
      ++lost;
    }));
  }
  ASSERT_EQ(lost, 1);
}

// Rank 1 writes twice at rank 0, which writes before that. The first write is served by the handler
// thread, since the program's thread is in no call; the second one, as a rule, by that thread.
void WriteThroughTwoThreads(SimCluster& cluster) {
  std::atomic<bool> first_is_there{false}, waits{false};
  RunDatabase(cluster, SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    const auto put = [&](const std::string& name) {
      ASSERT_OK(db.Put(KeyOwnedBy(db, 0, name + " key"), name));
      ASSERT_OK(db.Fence());
    };
    if (rank == 0) put("own");
    ASSERT_OK(context.Barrier());
    if (rank == 1) {
      put("its first");
      first_is_there = true;
      while (!waits) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      put("its second");
    } else {
      while (!first_is_there) std::this_thread::yield();
      waits = true;
    }
    ASSERT_OK(context.Barrier());
    cluster.disk(rank).CrashAfter(0);
  });
}

TEST(Promises, AfterAPowerLossAPrefixOfWhatAnotherRankWroteIsThere) {
  for (int round = 0; round < 10; ++round) {
    SimCluster::Options ranks = Ranks(2);
    ranks.deterministic = false;
    SimCluster cluster(ranks);
    ASSERT_NO_FATAL_FAILURE(WriteThroughTwoThreads(cluster));
    for (const int rank : {0, 1}) cluster.disk(rank).Restart(io::CrashKind::kMoved, 1);
    ASSERT_NO_FATAL_FAILURE(LosePagesOfTheLog(cluster, "its first"));
    RunDatabase(cluster, SimCluster::SmallDatabase(), [](int, Context& context, Database& db) {
      EXPECT_EQ(ValueOf(db, KeyOwnedBy(db, 0, "own key")), "own");
      EXPECT_THAT(ValueOf(db, KeyOwnedBy(db, 0, "its first key")), HasSubstr("not found"));
      EXPECT_THAT(ValueOf(db, KeyOwnedBy(db, 0, "its second key")), HasSubstr("not found"));
      ASSERT_OK(context.Barrier());
      ASSERT_OK(db.Close());
    });
  }
}

TEST(Promises, ABarrierThatOneRankCannotFulfilFailsOnAllRanks) {
  SimCluster cluster(Ranks(3));
  RunDatabase(cluster, SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
    ASSERT_TRUE(db.Put(KeyOwnedBy(db, rank), "value").ok());
    if (rank == 1) cluster.disk(1).SetFreeBytes(0);
    const Status refused = db.Barrier(Level::kSsTable);
    EXPECT_EQ(refused.code(), Code::kNoSpace) << refused.ToString();
    EXPECT_THAT(refused.message(), HasSubstr("rank 1"));
    if (rank == 1) cluster.disk(1).SetFreeBytes(UINT64_MAX);
    const Status again = db.Barrier(Level::kSsTable);
    EXPECT_TRUE(again.ok()) << again.ToString();
    ASSERT_TRUE(db.Close().ok());
  });
}

// Some lie in tables, some apart.
std::string ValueFor(const std::string& key) {
  return key.back() == '7' ? key + std::string(1200, 'v') : key;
}

TEST(Promises, ADamagedBlockFailsOnlyTheGetsThatReadIt) {
  SimCluster cluster(Ranks(2));
  DatabaseOptions options = SimCluster::SmallDatabase();
  options.partitioner = [](Slice, int) { return 1; };
  constexpr int kCount = 500;
  const std::string directory = "/repository/db/gen-1/rank-1";
  const auto key = [](int i) { return "key " + std::to_string(1000 + i); };
  RunDatabase(cluster, options, [&](int rank, Context&, Database& db) {
    for (int i = 0; rank == 0 && i < kCount; ++i) {
      ASSERT_TRUE(db.Put(key(i), ValueFor(key(i))).ok());
    }
    ASSERT_TRUE(db.Barrier(Level::kSsTable).ok());
    ASSERT_TRUE(db.Close().ok());
    if (rank == 0) return;
    const Result<std::vector<io::FileInfo>> files = cluster.disk(1).List(directory);
    ASSERT_TRUE(files.ok());
    for (const io::FileInfo& file : *files) {
      // A block of a table, and values that lie apart.
      const size_t at = file.name.ends_with(".sst") ? 100 : 5000;
      if (at == 5000 && !file.name.starts_with("val-")) continue;
      const auto flip = [at](std::string* bytes) { (*bytes)[at] ^= 1; };
      ASSERT_TRUE(cluster.disk(1).Damage(directory + "/" + file.name, flip).ok());
    }
  });
  RunDatabase(cluster, options, [&](int rank, Context&, Database& db) {
    std::vector<std::string> names;
    for (int i = 0; i < kCount; ++i) names.push_back(key(i));
    std::vector<std::string> values;
    std::vector<bool> found;
    const Status status = db.GetMany({names.begin(), names.end()}, &values, &found);
    EXPECT_EQ(status.code(), Code::kCorruption) << status.ToString();
    const int found_count = static_cast<int>(std::count(found.begin(), found.end(), true));
    EXPECT_GT(found_count, 0);
    EXPECT_LT(found_count, kCount);
    EXPECT_THAT(status.message(), HasSubstr(std::to_string(kCount - found_count) + " of 500"));
    EXPECT_EQ(status.message().find("rank 1") != std::string::npos, rank == 0) << status.message();
    for (int i = 0; i < kCount; ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_EQ(values[at], found[at] ? ValueFor(key(i)) : "");
    }
    ASSERT_TRUE(db.Close().ok());
  });
}

TEST(Promises, AWriteWhoseOwnerDoesNotAnswerHasAnUnknownOutcome) {
  constexpr uint64_t kMs = 1'000'000;
  SimCluster::Options ranks = Ranks(2);
  ranks.context.timeout_ms = 1000;
  SimCluster cluster(ranks);
  RunDatabase(cluster, SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    ASSERT_TRUE(context.Barrier().ok());
    const std::string key = KeyOwnedBy(db, 1);
    if (rank == 0) {
      cluster.network().Stop(1, 5000 * kMs);
      ASSERT_TRUE(db.Put(key, "value").ok());
      const Status fenced = db.Fence();
      EXPECT_EQ(fenced.code(), Code::kTimedOut) << fenced.ToString();
      EXPECT_THAT(fenced.message(), HasSubstr("1 operation with unknown outcome"));
      EXPECT_THAT(fenced.message(), Not(HasSubstr("lost")));
    }
    // Once it answers again.
    Status heard(Code::kTimedOut);
    for (int i = 0; i < 20 && heard.code() == Code::kTimedOut; ++i) {
      std::string value;
      heard = rank == 0 ? db.Get(key, &value) : context.WaitSignal(1, {0});
    }
    ASSERT_TRUE(heard.ok()) << heard.ToString();
    if (rank == 0) {
      ASSERT_TRUE(context.Notify(1, {1}).ok());
    }
    EXPECT_EQ(ValueOf(db, key), "value") << "as it turned out";
    ASSERT_TRUE(db.Close().ok());
  });
}

TEST(Promises, ACallToARankThatLeftNamesTheRank) {
  for (const Consistency consistency : {Consistency::kSequential, Consistency::kRelaxed}) {
    SimCluster cluster(Ranks(2));
    cluster.Run([&](int rank, Context& context) {
      DatabaseOptions options = SimCluster::SmallDatabase();
      options.consistency = consistency;
      auto db = context.Open("db", options);
      ASSERT_TRUE(db.ok()) << db.status().ToString();
      if (rank == 1) {
        db->reset();  // without Close: the other one knows nothing of it
        ASSERT_TRUE(context.Notify(1, {0}).ok());
        ASSERT_TRUE(context.WaitSignal(2, {0}).ok());
        return;
      }
      ASSERT_TRUE(context.WaitSignal(1, {1}).ok());
      const std::string key = KeyOwnedBy(**db, 1);
      std::string value;
      EXPECT_EQ((*db)->Get(key, &value).code(), Code::kPeerFailed);
      Status put = (*db)->Put(key, "value");
      if (put.ok()) put = (*db)->Fence();
      EXPECT_EQ(put.code(), Code::kPeerFailed) << put.ToString();
      EXPECT_NE(put.message().find("rank 1"), std::string::npos) << put.message();
      ASSERT_TRUE(context.Notify(2, {1}).ok());
    });
  }
}

TEST(Promises, AWriteTooLargeToBeStagedStaysBehindTheStagedOnes) {
  const DatabaseOptions options = SimCluster::SmallDatabase();
  const std::string large(2 * options.remote_memtable_bytes, 'l');
  SimCluster cluster(Ranks(2));
  RunDatabase(cluster, options, [&](int rank, Context& context, Database& db) {
    const std::string key = KeyOwnedBy(db, 1 - rank);
    ASSERT_TRUE(db.Put(key, "small").ok());
    ASSERT_TRUE(db.Put(key, large).ok());
    EXPECT_TRUE(ValueOf(db, key) == large);
    ASSERT_TRUE(db.Fence().ok());
    EXPECT_TRUE(ValueOf(db, key) == large);
    ASSERT_TRUE(context.Barrier().ok());
    ASSERT_TRUE(db.Close().ok());
  });
}

TEST(Promises, WhileWritesAreAllowedAReadIsNotOlderThanTheLastBarrier) {
  SimCluster cluster(Ranks(2));
  RunDatabase(cluster, SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
    const std::string key = KeyOwnedBy(db, 1);
    for (int round = 0; round < 3; ++round) {
      const std::string value = "round " + std::to_string(round);
      if (rank == 1) {
        ASSERT_TRUE(db.Put(key, value).ok());
      }
      ASSERT_TRUE(db.Barrier(Level::kMemTable).ok());
      EXPECT_EQ(ValueOf(db, key), value);
      ASSERT_TRUE(db.Barrier(Level::kMemTable).ok());
    }
    ASSERT_TRUE(db.Close().ok());
  });
}

}  // namespace
}  // namespace quire::kv::promises_test
