// Storage groups: members read each other's tables as files; what is in memory the owner tells
// (SC17, section 2.7).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kv/descriptor.h"
#include "kv/sim_cluster_testing.h"
#include "lsm/manifest.h"
#include "tests/support/status_asserts.h"

namespace quire::kv {
namespace {

// Ranks that share no memory: what they read of each other they read as files.
class Groups : public testing::TestWithParam<bool> {
 protected:
  void Run(int count, bool own_disks, int group_size, const SimCluster::DatabaseProgram& program) {
    SimCluster::Options ranks;
    ranks.rank_count = count;
    ranks.deterministic = GetParam();
    ranks.own_disks = own_disks;
    ranks.share_memory = false;
    SimCluster cluster(ranks);
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.group_size = group_size;
    cluster.RunDatabase(options, program);
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, Groups, testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Seeded" : "Threads"; });

std::string ValueFor(int rank, int round) {
  return std::string(round % 3 == 0 ? 2000 : 50, static_cast<char>('a' + rank)) +
         std::to_string(round);
}

TEST_P(Groups, MembersReadTablesAndTheOwnerTellsItsMemory) {
  Run(4, false, 2, [](int rank, Context& context, Database& db) {
    for (int round = 0; round < 20; ++round) {
      ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, rank), ValueFor(rank, round)));
      ASSERT_OK(db.Barrier(round % 2 == 0 ? Level::kSsTable : Level::kMemTable));
      if (round % 5 == 0) {
        ASSERT_OK(db.Compact());
      }
      for (int owner = 0; owner < 4; ++owner) {
        ASSERT_EQ(SimCluster::ValueOf(db, SimCluster::KeyOwnedBy(db, owner)),
                  ValueFor(owner, round));
        ASSERT_EQ(SimCluster::ValueOf(db, SimCluster::KeyOwnedBy(db, owner, "absent")),
                  "<not found>");
      }
      ASSERT_OK(context.Barrier());
    }
    const Statistics statistics = db.GetStatistics();
    // Of the one other member: in tables every second round, and each round an absent key. In two
    // rounds more it compacts, before it is asked or after that.
    EXPECT_GE(statistics.at("gets.group"), 30u);
    EXPECT_LE(statistics.at("gets.group"), 32u);
    ASSERT_OK(db.Delete(SimCluster::KeyOwnedBy(db, rank)));
    ASSERT_OK(db.Barrier(Level::kSsTable));
    for (int owner = 0; owner < 4; ++owner) {
      EXPECT_EQ(SimCluster::ValueOf(db, SimCluster::KeyOwnedBy(db, owner)), "<not found>");
    }
    ASSERT_OK(db.Close());
  });
}

// The owner overwrites, flushes and compacts all the time; who reads never sees an older value.
TEST_P(Groups, ReadsAreNeverOldOrTornWhileTheOwnerCompacts) {
  Run(2, false, 2, [](int rank, Context& context, Database& db) {
    ASSERT_OK(db.SetConsistency(Consistency::kSequential));
    const std::string key = SimCluster::KeyOwnedBy(db, 0);
    ASSERT_OK(context.Barrier());
    int seen = 0;
    for (int round = 1; round <= 150; ++round) {
      if (rank == 0) {
        ASSERT_OK(db.Put(key, std::string(3000, 'x') + std::to_string(round)));
        if (round % 3 == 0) {
          ASSERT_OK(db.Compact());
        }
        continue;
      }
      std::string value;
      const Status got = db.Get(key, &value);
      if (got.code() == Code::kNotFound && seen == 0) continue;
      ASSERT_OK(got);
      const int now = std::stoi(value.substr(3000));
      ASSERT_GE(now, seen);
      seen = now;
    }
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.Close());
  });
}

TEST_P(Groups, OneThatCannotBeSeenIsAskedForItsValues) {
  Run(2, true, 2, [](int rank, Context&, Database& db) {
    ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, rank), ValueFor(rank, 1)));
    ASSERT_OK(db.Barrier(Level::kSsTable));
    for (int owner = 0; owner < 2; ++owner) {
      EXPECT_EQ(SimCluster::ValueOf(db, SimCluster::KeyOwnedBy(db, owner)), ValueFor(owner, 1));
    }
    EXPECT_EQ(db.GetStatistics().at("gets.group"), 0u);
    ASSERT_OK(db.Close());
  });
}

TEST_P(Groups, EveryRankItsOwnAsksByMessage) {
  Run(2, false, 1, [](int rank, Context&, Database& db) {
    ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, rank), ValueFor(rank, 1)));
    ASSERT_OK(db.Barrier(Level::kSsTable));
    EXPECT_EQ(SimCluster::ValueOf(db, SimCluster::KeyOwnedBy(db, 1 - rank)), ValueFor(1 - rank, 1));
    EXPECT_EQ(db.GetStatistics().at("gets.group"), 0u);
    EXPECT_EQ(db.GetStatistics().at("gets.direct"), 0u);
    EXPECT_EQ(db.GetStatistics().at("gets.message"), 1u);
    ASSERT_OK(db.Close());
  });
}

}  // namespace
}  // namespace quire::kv
