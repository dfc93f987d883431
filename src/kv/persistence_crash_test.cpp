// Checkpoint, restart and redistribution with a crash at any point: any subset of ranks dies, or
// the machine goes down, at any step. What there is afterwards is whole, old or new, and the same
// for every number of ranks.
//
// QUIRE_PERSISTENCE_CRASH_POINTS sets how many points (default 2000, over all tests here).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "kv/checkpoint_files.h"
#include "kv/sim_cluster_testing.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::kv {
namespace {

using Model = std::map<std::string, std::string>;

constexpr int kKeys = 40;

Model ModelOf(int round) {
  Model model;
  for (int i = 0; i < kKeys; ++i) {
    if (round == 1 && i % 7 == 0) continue;  // deleted
    const int written = round == 1 && i % 3 != 0 ? 0 : round;
    model["key " + std::to_string(i)] =
        std::string(i % 8 == 0 ? 600 : 12, static_cast<char>('a' + written)) + std::to_string(i);
  }
  return model;
}

// Puts and deletes that lead to the model of `round` from the one before.
void Write(Database& db, int rank, int size, int round) {
  const Model model = ModelOf(round);
  for (int i = rank; i < kKeys; i += size) {
    const std::string key = "key " + std::to_string(i);
    const auto found = model.find(key);
    // Where a rank is dead some of them fail: what counts is what a checkpoint has.
    static_cast<void>(found == model.end() ? db.Delete(key) : db.Put(key, found->second));
  }
}

enum class Phase { kCheckpoint, kRestart, kRedistribute };

// One life of a repository, cut off at one point.
class Life {
 public:
  Life(Phase phase, uint64_t seed)
      : phase_(phase), random_(seed), seed_(seed), size_(2 + static_cast<int>(random_.Below(2))) {}

  void Run() {
    Begin();
    if (testing::Test::HasFatalFailure()) return;
    Arm();
    switch (phase_) {
      case Phase::kCheckpoint:
        CutCheckpoint();
        break;
      case Phase::kRestart:
        CutRestart();
        break;
      case Phase::kRedistribute:
        CutRedistribution();
        break;
    }
    if (disk_->crashed()) {
      disk_->Restart(random_.OneIn(2) ? io::CrashKind::kPower : io::CrashKind::kProcess, seed_);
    }
    disk_->CrashAfter(UINT64_MAX);
    if (phase_ == Phase::kCheckpoint) return ExpectCheckpoints();
    ExpectDatabase();
  }

 private:
  SimCluster NewCluster(int size, const std::string& repository) {
    SimCluster::Options options;
    options.rank_count = size;
    options.seed = seed_ + static_cast<uint64_t>(++jobs_) * 7919;
    options.repository = repository;
    options.context.timeout_ms = 2000;
    options.file_system = [this](int) { return disk_.get(); };
    return SimCluster(options);
  }

  // A database with the first model, checkpointed, closed.
  void Begin() {
    SimCluster cluster = NewCluster(size_, "/repository");
    cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
      Write(db, rank, size_, 0);
      auto event = db.Checkpoint("/pfs", {});
      ASSERT_OK(event.status());
      ASSERT_OK((*event)->Wait());
      ASSERT_OK(db.Close());
    });
  }

  // Where it will be cut off: the machine after so many steps on files, or ranks after so many
  // calls on the network.
  void Arm() {
    const uint64_t most = 1ull << random_.Below(11);
    if (random_.OneIn(2)) {
      steps_ = 1 + random_.Below(most);
      return;
    }
    const uint64_t dying = 1 + random_.Below((1u << size_) - 1);
    for (int rank = 0; rank < size_; ++rank) {
      if ((dying >> rank & 1) != 0) kills_.emplace_back(rank, 1 + random_.Below(most));
    }
  }

  void RunCut(int size, const std::string& repository,
              const std::function<void(int rank, Context& context)>& program) {
    SimCluster cluster = NewCluster(size, repository);
    for (const auto& [rank, calls] : kills_) {
      if (rank < size) cluster.KillAfter(rank, calls);
    }
    std::atomic<bool> armed{false};
    cluster.RunRaw([&](int rank, Result<std::unique_ptr<Context>> context) {
      if (steps_ != 0 && !armed.exchange(true)) disk_->CrashAfter(steps_);
      if (context.ok()) program(rank, **context);
    });
  }

  void CutCheckpoint() {
    RunCut(size_, "/repository", [&](int rank, Context& context) {
      auto db = context.Open("db", SimCluster::SmallDatabase());
      if (!db.ok()) return;
      Write(**db, rank, size_, 1);
      auto event = (*db)->Checkpoint("/pfs", {.keep = random_keep_});
      if (event.ok() && (*event)->Wait().ok()) told_ = true;
      static_cast<void>((*db)->Close());
    });
  }

  // Some number of ranks brings the checkpoint back into another repository.
  void CutRestart() {
    const int size = SomeSize();
    const bool in_place = random_.OneIn(3);
    const bool redistribute = random_.OneIn(2);
    RunCut(size, "/other", [&](int, Context& context) {
      auto event = context.Restart("/pfs", "db", {.in_place = in_place});
      if (!event.ok() || !(*event)->Wait().ok()) return;
      told_ = true;
      DatabaseOptions options = SimCluster::SmallDatabase();
      options.mode = OpenMode::kMustExist;
      options.redistribute = redistribute;
      auto db = context.Open("db", options);
      if (db.ok()) static_cast<void>((*db)->Close());
    });
  }

  void CutRedistribution() {
    const int size = SomeSize();
    told_ = true;
    RunCut(size, "/repository", [&](int, Context& context) {
      DatabaseOptions options = SimCluster::SmallDatabase();
      options.redistribute = true;
      auto db = context.Open("db", options);
      if (db.ok()) static_cast<void>((*db)->Close());
    });
  }

  int SomeSize() {
    const int sizes[] = {1, size_ - 1, size_, size_ + 1, 2 * size_};
    return sizes[random_.Below(5)];
  }

  // All pairs, from the walks of all ranks.
  static void Collect(Database& db, std::mutex* mutex, Model* all) {
    const auto iterator = db.NewLocalIterator();
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      const std::lock_guard<std::mutex> lock(*mutex);
      EXPECT_TRUE(all->emplace(iterator->key(), iterator->value()).second);
    }
    EXPECT_OK(iterator->status());
  }

  void ExpectCheckpoints() {
    for (const CheckpointFound& one : *FindCheckpoints(*disk_, "/pfs/db")) {
      ASSERT_NE(one.state, CheckpointState::kPartial) << "its writer is gone";
    }
    Model first;
    for (const int size : std::set<int>{1, size_ - 1, size_, size_ + 1, 2 * size_}) {
      Model all;
      std::mutex mutex;
      SimCluster cluster = NewCluster(size, "/restarted-" + std::to_string(size));
      cluster.Run([&](int, Context& context) {
        auto event = context.Restart("/pfs", "db", {});
        ASSERT_OK(event.status());
        ASSERT_OK((*event)->Wait());
        auto db = context.Open("db", SimCluster::SmallDatabase());
        ASSERT_OK(db.status());
        Collect(**db, &mutex, &all);
        ASSERT_OK((*db)->Close());
      });
      if (first.empty()) first = all;
      ASSERT_EQ(all, first) << size << " ranks";
    }
    ASSERT_TRUE(first == ModelOf(1) || (!told_ && first == ModelOf(0)))
        << (told_ ? "the new one was told to be complete" : "neither the old one nor the new");
  }

  // It is there with all its pairs, or (a restart nobody was told of) it can be brought back.
  void ExpectDatabase() {
    const int size = SomeSize();
    const std::string repository = phase_ == Phase::kRestart ? "/other" : "/repository";
    Model all;
    std::mutex mutex;
    SimCluster cluster = NewCluster(size, repository);
    cluster.Run([&](int, Context& context) {
      DatabaseOptions options = SimCluster::SmallDatabase();
      options.mode = OpenMode::kMustExist;
      auto db = context.Open("db", options);
      if (!told_ && db.status().code() == Code::kNotFound) {
        auto event = context.Restart("/pfs", "db", {});
        ASSERT_OK(event.status());
        ASSERT_OK((*event)->Wait());
        db = context.Open("db", options);
      }
      ASSERT_OK(db.status());
      Collect(**db, &mutex, &all);
      ASSERT_OK((*db)->Close());
    });
    ASSERT_EQ(all, ModelOf(0));
  }

  const Phase phase_;
  base::Random random_;
  const uint64_t seed_;
  const int size_;
  const int random_keep_ = static_cast<int>(random_.Below(3));
  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  int jobs_ = 0;
  uint64_t steps_ = 0;  // 0: ranks die
  std::vector<std::pair<int, uint64_t>> kills_;
  std::atomic<bool> told_{false};
};

class PersistenceCrash : public testing::TestWithParam<Phase> {};

INSTANTIATE_TEST_SUITE_P(Phases, PersistenceCrash,
                         testing::Values(Phase::kCheckpoint, Phase::kRestart, Phase::kRedistribute),
                         [](const auto& phase) {
                           return phase.param == Phase::kCheckpoint ? "Checkpoint"
                                  : phase.param == Phase::kRestart  ? "Restart"
                                                                    : "Redistribute";
                         });

TEST_P(PersistenceCrash, LeavesTheOldOrTheNewWholeForEveryNumberOfRanks) {
  const int64_t points = test::ScaledCount("QUIRE_PERSISTENCE_CRASH_POINTS", 2000) / 3 + 1;
  for (int64_t point = 0; point < points; ++point) {
    const auto seed = static_cast<uint64_t>(point) * 3 + static_cast<uint64_t>(GetParam());
    Life(GetParam(), seed + 1).Run();
    ASSERT_FALSE(HasFailure()) << "seed " << seed + 1;
  }
}

}  // namespace
}  // namespace quire::kv
