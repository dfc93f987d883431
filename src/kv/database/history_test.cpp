// Recorded histories of 2 to 4 ranks over the simulated network, checked against what each mode
// promises.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "base/core/random.h"
#include "kv/database/history_testing.h"
#include "kv/database/sim_cluster_testing.h"
#include "tests/support/test_scale.h"

namespace quire::kv::history_test {
namespace {

using Kind = HistoryEvent::Kind;

HistoryEvent Write(int rank, const char* value, uint64_t called, uint64_t returned) {
  return {Kind::kWrite, rank, "k", value, called, returned};
}
HistoryEvent Read(int rank, const char* value, uint64_t called, uint64_t returned) {
  return {Kind::kRead, rank, "k", value, called, returned};
}

TEST(LinearizabilityCheck, AcceptsOverlappingOperationsInEitherOrder) {
  EXPECT_EQ(CheckLinearizable({Write(0, "a", 1, 10), Read(1, "", 2, 3), Read(1, "a", 4, 5)}), "");
  EXPECT_EQ(CheckLinearizable({Write(0, "a", 1, 10), Write(1, "b", 2, 9), Read(2, "a", 11, 12)}),
            "");
  EXPECT_EQ(CheckLinearizable({Write(0, "a", 1, 10), Write(1, "b", 2, 9), Read(2, "b", 11, 12)}),
            "");
  EXPECT_EQ(
      CheckLinearizable({Write(0, "a", 1, UINT64_MAX), Read(1, "", 5, 6), Read(1, "a", 7, 8)}), "");
  EXPECT_EQ(CheckLinearizable({Write(0, "a", 1, UINT64_MAX), Read(1, "", 5, 6)}), "");
}

TEST(LinearizabilityCheck, RejectsStaleReadsAndValuesThatComeAndGo) {
  EXPECT_NE(CheckLinearizable({Write(0, "a", 1, 2), Read(1, "", 3, 4)}), "");
  EXPECT_NE(CheckLinearizable({Write(0, "a", 1, 10), Read(1, "a", 2, 3), Read(2, "", 4, 5)}), "");
  EXPECT_NE(CheckLinearizable({Read(1, "a", 1, 2), Write(0, "a", 3, 4)}), "");
  EXPECT_NE(CheckLinearizable(
                {Write(0, "a", 1, 2), Write(0, "b", 3, 4), Read(1, "b", 5, 6), Read(1, "a", 7, 8)}),
            "");
}

RelaxedEvent Put(const char* key, const char* value, int epoch, uint64_t time) {
  return {true, key, 0, value, epoch, time, time};
}
RelaxedEvent Got(const char* key, const char* value, int epoch, uint64_t time) {
  return {false, key, 0, value, epoch, time, time};
}

TEST(RelaxedCheck, RejectsEachBrokenRule) {
  RelaxedHistory good;
  good.keys = {"k", "l"};
  good.ranks = {{Put("k", "0:1", 0, 1), Put("l", "0:2", 0, 2), Put("k", "0:3", 0, 3)},
                {Got("k", "", 0, 2), Got("l", "0:2", 0, 4), Got("k", "0:1", 0, 5)}};
  good.states = {{{"0:3", "0:2"}, {"0:3", "0:2"}}};
  EXPECT_EQ(CheckRelaxed(good), "");

  RelaxedHistory invented = good;
  invented.ranks[1][0].value = "0:7";
  EXPECT_NE(CheckRelaxed(invented), "");
  RelaxedHistory early = good;
  early.ranks[1][0] = Got("k", "0:3", 0, 2);
  EXPECT_NE(CheckRelaxed(early), "");
  RelaxedHistory out_of_order = good;
  out_of_order.ranks[1][2] = Got("k", "", 0, 5);
  EXPECT_NE(CheckRelaxed(out_of_order), "");
  RelaxedHistory own = good;
  own.ranks[0].push_back(Got("k", "0:1", 0, 9));
  EXPECT_NE(CheckRelaxed(own), "");
  RelaxedHistory old = good;
  old.ranks[1].push_back(Got("k", "0:1", 1, 9));
  EXPECT_NE(CheckRelaxed(old), "");
  RelaxedHistory lost = good;
  lost.states = {{{"0:1", "0:2"}, {"0:1", "0:2"}}};
  EXPECT_NE(CheckRelaxed(lost), "");
  RelaxedHistory disagree = good;
  disagree.states[0][1][0] = "0:1";
  EXPECT_NE(CheckRelaxed(disagree), "");
}

SimCluster::Options ClusterOf(uint64_t seed, bool deterministic) {
  SimCluster::Options options;
  options.seed = seed;
  options.rank_count = 2 + static_cast<int>(seed % 3);
  options.deterministic = deterministic;
  options.own_disks = seed % 2 == 0;  // messages, or direct reads
  return options;
}

std::string OneSequentialHistory(uint64_t seed, bool deterministic) {
  SimCluster cluster(ClusterOf(seed, deterministic));
  std::atomic<uint64_t> clock{1};
  std::mutex mutex;
  std::vector<HistoryEvent> events;
  cluster.Run([&](int rank, Context& context) {
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.consistency = Consistency::kSequential;
    if (seed % 5 == 0) options.local_cache_bytes = 64 * 1024;
    auto opened = context.Open("db", options);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    Database& db = **opened;
    base::Random random(seed * 100 + static_cast<uint64_t>(rank));
    std::vector<HistoryEvent> mine;
    for (int i = 0; i < 15; ++i) {
      HistoryEvent event;
      event.rank = rank;
      event.key = "key" + std::to_string(random.Next() % 3);
      const uint64_t choice = random.Next() % 10;
      event.called = clock.fetch_add(1);
      Status status;
      if (choice < 4) {
        event.kind = Kind::kWrite;
        event.value = std::to_string(rank) + ":" + std::to_string(i);
        status = db.Put(event.key, event.value);
      } else if (choice < 5) {
        event.kind = Kind::kWrite;
        status = db.Delete(event.key);
      } else {
        status = db.Get(event.key, &event.value);
        if (status.code() == Code::kNotFound) status = Status();
      }
      event.returned = clock.fetch_add(1);
      ASSERT_TRUE(status.ok()) << status.ToString();
      mine.push_back(event);
      if (random.Next() % 20 == 0) (void)db.Compact();
    }
    ASSERT_TRUE((*opened)->Close().ok());
    const std::lock_guard<std::mutex> lock(mutex);
    events.insert(events.end(), mine.begin(), mine.end());
  });
  return CheckLinearizable(events);
}

std::string OneRelaxedHistory(uint64_t seed, bool deterministic) {
  const SimCluster::Options cluster_options = ClusterOf(seed, deterministic);
  SimCluster cluster(cluster_options);
  constexpr int kEpochs = 3;
  std::atomic<uint64_t> clock{1};
  RelaxedHistory history;
  const auto count = static_cast<size_t>(cluster_options.rank_count);
  history.ranks.resize(count);
  history.states.assign(kEpochs, std::vector<std::vector<std::string>>(count));
  for (int i = 0; i < 4; ++i) history.keys.push_back("key" + std::to_string(i));
  cluster.Run([&](int rank, Context& context) {
    auto opened = context.Open("db", SimCluster::SmallDatabase());
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    Database& db = **opened;
    base::Random random(seed * 100 + static_cast<uint64_t>(rank));
    base::Random together(seed);  // the same choices on all ranks
    uint64_t number = 0;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      for (int i = 0; i < 12; ++i) {
        RelaxedEvent event;
        event.epoch = epoch;
        event.key = history.keys[random.Next() % history.keys.size()];
        event.owner = db.Owner(event.key);
        event.is_write = random.Next() % 2 == 0;
        event.called = clock.fetch_add(1);
        Status status;
        if (event.is_write) {
          event.value = std::to_string(rank) + ":" + std::to_string(++number);
          status = db.Put(event.key, event.value);
        } else {
          status = db.Get(event.key, &event.value);
          if (status.code() == Code::kNotFound) status = Status();
        }
        event.returned = clock.fetch_add(1);
        ASSERT_TRUE(status.ok()) << status.ToString();
        history.ranks[static_cast<size_t>(rank)].push_back(event);
        if (random.Next() % 15 != 0) continue;
        ASSERT_TRUE(db.Fence().ok());
      }
      const Level level = together.Next() % 2 == 0 ? Level::kMemTable : Level::kSsTable;
      ASSERT_TRUE(db.Barrier(level).ok());
      auto& state = history.states[static_cast<size_t>(epoch)][static_cast<size_t>(rank)];
      for (const std::string& key : history.keys) {
        std::string value;
        const Status status = db.Get(key, &value);
        ASSERT_TRUE(status.ok() || status.code() == Code::kNotFound) << status.ToString();
        state.push_back(value);
      }
      // A second barrier: the state is read before the next epoch's writes. Switching modes is one,
      // too.
      switch (together.Next() % 4) {
        case 0:
          ASSERT_TRUE(db.SetConsistency(Consistency::kSequential).ok());
          break;
        case 1:
          ASSERT_TRUE(db.SetConsistency(Consistency::kRelaxed).ok());
          break;
        default:
          ASSERT_TRUE(db.Barrier(Level::kMemTable).ok());
      }
    }
    ASSERT_TRUE(db.Close().ok());
  });
  return CheckRelaxed(history);
}

using OneHistory = std::string (*)(uint64_t seed, bool deterministic);

void RunHistories(OneHistory one, int64_t count, bool deterministic) {
  const uint64_t first = test::FirstSeed();
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(count); ++seed) {
    const std::string problem = one(seed, deterministic);
    ASSERT_EQ(problem, "") << "seed " << seed;
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

TEST(Histories, SequentialModeIsLinearizablePerKey) {
  RunHistories(OneSequentialHistory, test::ScaledCount("QUIRE_HISTORY_COUNT", 5000) / 2, true);
}

TEST(Histories, RelaxedModeKeepsItsRules) {
  RunHistories(OneRelaxedHistory, test::ScaledCount("QUIRE_HISTORY_COUNT", 5000) / 2, true);
}

TEST(Histories, SequentialModeIsLinearizableOnRealThreads) {
  RunHistories(OneSequentialHistory, test::ScaledCount(100), false);
}

TEST(Histories, RelaxedModeKeepsItsRulesOnRealThreads) {
  RunHistories(OneRelaxedHistory, test::ScaledCount(100), false);
}

}  // namespace
}  // namespace quire::kv::history_test
