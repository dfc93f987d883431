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
#include "kv/descriptor.h"
#include "kv/sim_cluster_testing.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::kv {
namespace {

using Model = std::map<std::string, std::string>;

constexpr int kKeys = 40;
constexpr int kNewKeys = 8;  // of the second round
constexpr int kSizeMax = 3;  // ranks that write at first

Model ModelOf(int round) {
  Model model;
  for (int i = 0; i < kKeys + (round == 1 ? kNewKeys : 0); ++i) {
    if (round == 1 && i % 7 == 0) continue;  // deleted, or never there
    const int written = round == 1 && i % 3 != 0 && i < kKeys ? 0 : round;
    model["key " + std::to_string(i)] =
        std::string(i % 8 == 0 ? 600 : 12, static_cast<char>('a' + written)) + std::to_string(i);
  }
  return model;
}

// Puts and deletes that lead to the model of `round` from the one before; the others' values stay
// where they are. False: some failed.
bool Write(Database& db, int rank, int size, int round) {
  const Model before = round == 0 ? Model() : ModelOf(round - 1);
  const Model model = ModelOf(round);
  bool all = true;
  for (int i = rank; i < kKeys + kNewKeys; i += size) {
    const std::string key = "key " + std::to_string(i);
    const auto found = model.find(key);
    const auto old = before.find(key);
    if (found == model.end() && old == before.end()) continue;
    if (found != model.end() && old != before.end() && *found == *old) continue;
    const Status done = found == model.end() ? db.Delete(key) : db.Put(key, found->second);
    all = all && done.ok();
  }
  return all;
}

enum class Phase { kCheckpoint, kRestart, kRedistribute };

// One life of a repository, cut off at one point.
class Life {
 public:
  Life(Phase phase, uint64_t seed)
      : phase_(phase),
        random_(seed),
        seed_(seed),
        size_(2 + static_cast<int>(random_.Below(kSizeMax - 1))),
        own_disks_(phase == Phase::kRedistribute && random_.OneIn(3)) {
    const int disks = own_disks_ ? 2 * kSizeMax : 1;
    for (int i = 0; i < disks; ++i) disks_.push_back(io::NewSimFileSystem());
  }

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
    for (const std::unique_ptr<io::SimFileSystem>& disk : disks_) {
      if (disk->crashed()) {
        disk->Restart(random_.OneIn(2) ? io::CrashKind::kPower : io::CrashKind::kProcess, seed_);
      }
      disk->CrashAfter(UINT64_MAX);
    }
    if (phase_ == Phase::kCheckpoint) return ExpectCheckpoints();
    ExpectDatabase();
  }

  std::string Describe() const {
    std::string text = std::to_string(size_) + " ranks, then " + std::to_string(cut_size_) +
                       (own_disks_ ? " with disks of their own" : " on one disk");
    if (steps_ != 0) text += ", which crash after " + std::to_string(steps_) + " steps";
    for (const auto& [rank, calls] : kills_) {
      text += ", rank " + std::to_string(rank) + " dies after " + std::to_string(calls) + " calls";
    }
    return text;
  }

 private:
  SimCluster NewCluster(int size, const std::string& repository) {
    SimCluster::Options options;
    options.rank_count = size;
    options.seed = seed_ + static_cast<uint64_t>(++jobs_) * 7919;
    options.repository = repository;
    options.context.timeout_ms = 2000;
    options.own_disks = own_disks_;
    options.file_system = [this](int rank) { return &DiskOf(rank); };
    return SimCluster(options);
  }

  io::SimFileSystem& DiskOf(int rank) {
    return *disks_[own_disks_ ? static_cast<size_t>(rank) : 0];
  }

  // A database with the first model, checkpointed where all ranks see one disk, closed.
  void Begin() {
    SimCluster cluster = NewCluster(size_, "/repository");
    cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
      ASSERT_TRUE(Write(db, rank, size_, 0));
      if (!own_disks_) {
        auto event = db.Checkpoint("/pfs", {});
        ASSERT_OK(event.status());
        ASSERT_OK((*event)->Wait());
      }
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
      if (steps_ != 0 && !armed.exchange(true)) DiskOf(crashing_ % size).CrashAfter(steps_);
      if (context.ok()) program(rank, **context);
    });
  }

  void CutCheckpoint() {
    RunCut(size_, "/repository", [&](int rank, Context& context) {
      auto db = context.Open("db", SimCluster::SmallDatabase());
      if (!db.ok()) return;
      static_cast<void>(Write(**db, rank, size_, 1));  // what counts is what a checkpoint has
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
    RunCut(size, "/other", [&](int rank, Context& context) {
      auto event = context.Restart("/pfs", "db", {.in_place = in_place});
      if (!event.ok() || !(*event)->Wait().ok()) return;
      told_ = true;
      DatabaseOptions options = SimCluster::SmallDatabase();
      options.mode = OpenMode::kMustExist;
      options.redistribute = redistribute;
      WriteOn(context.Open("db", options), rank, size);
    });
  }

  void CutRedistribution() {
    cut_size_ = SomeSize();
    const bool redistribute = random_.OneIn(2);
    told_ = true;
    RunCut(cut_size_, "/repository", [&](int rank, Context& context) {
      DatabaseOptions options = SimCluster::SmallDatabase();
      options.redistribute = redistribute;
      WriteOn(context.Open("db", options), rank, cut_size_);
    });
  }

  // Overwrites, deletes and new keys in the generation that has just begun.
  void WriteOn(Result<std::unique_ptr<Database>> db, int rank, int size) {
    if (!db.ok()) return;
    if (!Write(**db, rank, size, 1)) wrote_all_ = false;
    if ((*db)->Barrier(Level::kSsTable).ok()) durable_ = true;
    static_cast<void>((*db)->Close());
  }

  int SomeSize() {
    const int sizes[] = {size_, size_ + 1, 2 * size_, 1, size_ - 1};
    return sizes[random_.Below(own_disks_ ? 3 : 5)];  // nobody else sees a disk of one's own
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
    for (const CheckpointFound& one : *FindCheckpoints(DiskOf(0), "/pfs/db")) {
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

  // Of each key what was there before, or what was written in the new generation: the latter
  // where all ranks were told that it is durable.
  void ExpectOldOrNew(const Model& all) {
    const Model old = ModelOf(0);
    const Model written = ModelOf(1);
    const auto value_in = [](const Model& model, const std::string& key) {
      const auto found = model.find(key);
      return found == model.end() ? std::string("absent") : found->second;
    };
    for (int i = 0; i < kKeys + kNewKeys; ++i) {
      const std::string key = "key " + std::to_string(i);
      const std::string value = value_in(all, key);
      const bool as_before = value == value_in(old, key) && !(durable_ && wrote_all_);
      EXPECT_TRUE(as_before || value == value_in(written, key))
          << key << " is " << value << (durable_ ? ", though the writes were durable" : "");
    }
    for (const auto& [key, value] : all) {
      EXPECT_TRUE(old.contains(key) || written.contains(key)) << key;
    }
  }

  // What the descriptor does not name is not there.
  void ExpectNothingElse(const std::string& directory) {
    const auto descriptor = ReadDescriptor(DiskOf(0), directory);
    ASSERT_OK(descriptor.status());
    std::set<std::string> named;
    for (const Generation& generation : descriptor->generations) {
      named.insert(kGenerationDirectoryPrefix + std::to_string(generation.number));
    }
    for (size_t rank = 0; rank < disks_.size(); ++rank) {
      const auto entries = disks_[rank]->List(directory);
      if (!entries.ok()) continue;  // a disk that no rank used
      for (const io::FileInfo& entry : *entries) {
        if (!entry.is_directory || named.contains(entry.name)) continue;
        ADD_FAILURE() << entry.name << " is left on disk " << rank << ", with "
                      << disks_[rank]->List(directory + "/" + entry.name)->size() << " parts; "
                      << EncodeDescriptor(*descriptor);
      }
    }
  }

  // It is there with all its pairs, or (a restart nobody was told of) it can be brought back.
  void ExpectDatabase() {
    // Where pairs began to move between disks, as many ranks have to go on.
    const int size = own_disks_ ? cut_size_ : SomeSize();
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
    ExpectOldOrNew(all);
    ExpectNothingElse(repository + "/db");
  }

  const Phase phase_;
  base::Random random_;
  const uint64_t seed_;
  const int size_;
  const bool own_disks_;
  const int random_keep_ = static_cast<int>(random_.Below(3));
  const int crashing_ = static_cast<int>(random_.Below(kSizeMax));  // whose disk
  std::vector<std::unique_ptr<io::SimFileSystem>> disks_;
  int cut_size_ = 0;
  int jobs_ = 0;
  uint64_t steps_ = 0;  // 0: ranks die
  std::vector<std::pair<int, uint64_t>> kills_;
  std::atomic<bool> told_{false};
  std::atomic<bool> wrote_all_{true};
  std::atomic<bool> durable_{false};
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
    Life life(GetParam(), seed + 1);
    life.Run();
    ASSERT_FALSE(HasFailure()) << "seed " << seed + 1 << ": " << life.Describe();
  }
}

}  // namespace
}  // namespace quire::kv
