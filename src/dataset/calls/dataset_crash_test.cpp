// Writes a dataset while the machine crashes at any step, a rank dies or stops at any call, or a
// message is damaged. Afterwards the dataset has each epoch that a rank reported as complete, and
// no epoch is there in part.
// QUIRE_DATASET_CRASH_POINTS sets how many points are tried.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/core/random.h"
#include "dataset/calls/dataset_reader.h"
#include "dataset/calls/dataset_testing.h"
#include "dataset/part/files.h"
#include "io/sim/sim_file_system.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::dataset::dataset_crash_test {
namespace {

constexpr int kCount = 80;
constexpr uint64_t kEpochs = 5;
constexpr int kSizeMax = 4;

constexpr uint64_t kTimeoutMs = 10;  // virtual

using Writer = std::unique_ptr<DatasetWriter>;

enum class Mishap { kMachine, kDeath, kStop, kDamage };

// One dataset whose writers are cut off, once or more, until all of its epochs are there.
class Life {
 public:
  Life(Mishap mishap, uint64_t seed)
      : mishap_(mishap),
        seed_(seed),
        random_(seed),
        options_(SmallDataset(static_cast<DatasetFormat>(random_.Below(5)))) {
    if (random_.OneIn(2)) options_.grid_ranks_min = 2;
  }

  void Run() {
    while (sizes_.size() < kEpochs) {
      Cut(random_.OneIn(6));
      if (testing::Test::HasFailure()) return;
      Look();
      if (testing::Test::HasFailure()) return;
    }
  }
  int cut_count() const { return cut_count_; }

 private:
  // A job of some ranks that writes the epochs that are left, to the end or not.
  void Cut(bool to_the_end) {
    runtime::SimRanksOptions ranks;
    ranks.rank_count = static_cast<int>(1 + random_.Below(kSizeMax));
    ranks.seed = ++seed_;
    ranks.timeout_ms = kTimeoutMs;
    ranks.file_system = [this](int) { return disk_.get(); };
    size_ = ranks.rank_count;
    told_ = kept_;
    failed_ = false;
    network_ = nullptr;
    if (!to_the_end) ranks.mishaps = [this](comm::SimNetwork& network) { Befall(network); };
    RunSimRanks(ranks,
                [&](const std::shared_ptr<runtime::ContextState>& context) { Write(context); });
    if (failed_) ++cut_count_;
    if (disk_->crashed()) {
      const auto kind = random_.OneIn(2)   ? io::CrashKind::kPower
                        : random_.OneIn(2) ? io::CrashKind::kMoved
                                           : io::CrashKind::kProcess;
      disk_->Restart(kind, seed_);
      lost_power_ = kind == io::CrashKind::kPower;
    } else {
      disk_->CrashAfter(UINT64_MAX);
      lost_power_ = false;
    }
  }

  // At some step of the disk that all share, or at some call of one of the ranks.
  void Befall(comm::SimNetwork& network) {
    network_ = &network;
    if (mishap_ == Mishap::kMachine) return disk_->CrashAfter(1 + random_.Below(220));
    if (mishap_ == Mishap::kDamage) return;
    const int victim = static_cast<int>(random_.Below(static_cast<uint64_t>(size_)));
    const uint64_t calls = 1 + random_.Below(600);
    if (mishap_ == Mishap::kDeath) {
      network.KillAfter(victim, calls);
    } else {
      network.StopAfter(victim, calls, (7 + random_.Below(30)) * kTimeoutMs * 100'000);
    }
  }

  void Write(const std::shared_ptr<runtime::ContextState>& context) {
    auto writer = OpenWriter(context, options_);
    if (!writer.ok()) {
      failed_ = true;
      return;
    }
    for (uint64_t epoch = sizes_.size() + 1; epoch <= kEpochs; ++epoch) {
      if (!Persist(*context, **writer, epoch)) return;
      uint64_t told = told_;
      while (told < epoch && !told_.compare_exchange_weak(told, epoch)) {
      }
    }
    static_cast<void>((*writer)->Finish());
  }

  // Returns whether the epoch is reported complete, at once or in the second attempt. A program
  // whose epoch failed goes on with other collective calls.
  bool Persist(runtime::ContextState& context, DatasetWriter& writer, uint64_t epoch) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      Status status = writer.BeginEpoch(epoch);
      const Status put = PutAll(writer, PairsOf(epoch, context.rank(), size_, kCount));
      DamageSome(context.rank(), epoch);
      status = writer.EndEpoch();
      if (status.ok() && put.ok()) return true;
      failed_ = true;
      static_cast<void>(context.exchange->Barrier());
    }
    return false;
  }

  // A message that a rank sends at the end of an epoch, or before.
  void DamageSome(int rank, uint64_t epoch) {
    base::Random random(seed_ + epoch * 100 + static_cast<uint64_t>(rank));
    if (mishap_ != Mishap::kDamage || network_ == nullptr || size_ == 1 || !random.OneIn(4)) return;
    const auto others = static_cast<uint64_t>(size_ - 1);
    network_->Damage(rank, (rank + 1 + static_cast<int>(random.Below(others))) % size_);
  }

  void Look() {
    const auto reader = OpenReader(*disk_, kDatasetDirectory, {});
    if (!reader.ok() && reader.status().code() == Code::kNotFound && told_ == 0) return;
    ASSERT_OK(reader.status());
    const std::vector<uint64_t> numbers = NumbersOf(**reader);
    ASSERT_GE(numbers.size(), told_) << "an epoch is lost";
    sizes_.resize(numbers.size(), size_);
    // The next power loss may take an epoch that a killed job left without reporting it.
    kept_ = lost_power_ ? numbers.size() : told_.load();
    for (uint64_t epoch = 1; epoch <= numbers.size(); ++epoch) {
      ASSERT_EQ(numbers[epoch - 1], epoch);
      ASSERT_NO_FATAL_FAILURE(
          ExpectEpoch(**reader, epoch, TruthOf(epoch, sizes_[epoch - 1], kCount)));
      ASSERT_OK((*reader)->Verify(epoch));
    }
  }

  const Mishap mishap_;
  uint64_t seed_;
  base::Random random_;
  DatasetOptions options_;
  std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  std::vector<int> sizes_;  // of each complete epoch: the ranks that wrote it
  int size_ = 0;
  uint64_t kept_ = 0;       // complete epochs that no crash may take
  bool lost_power_ = true;  // the disk has only what is durable
  std::atomic<uint64_t> told_{0};
  std::atomic<bool> failed_{false};
  comm::SimNetwork* network_ = nullptr;
  int cut_count_ = 0;
};

void Live(Mishap mishap, int64_t points) {
  int64_t cut_count = 0;
  for (uint64_t seed = test::FirstSeed(); cut_count < points; ++seed) {
    Life life(mishap, seed * 1'000'000);
    life.Run();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
    cut_count += life.cut_count();
  }
}

TEST(DatasetCrash, AtAnyStepLeavesCompleteEpochsAndNoOthers) {
  Live(Mishap::kMachine, test::ScaledCount("QUIRE_DATASET_CRASH_POINTS", 1000));
}

TEST(DatasetCrash, ADeathAtAnyCallLeavesCompleteEpochsAndNoOthers) {
  Live(Mishap::kDeath, test::ScaledCount("QUIRE_DATASET_CRASH_POINTS", 1000));
}

TEST(DatasetCrash, ADamagedMessageLeavesCompleteEpochsAndNoOthers) {
  Live(Mishap::kDamage, test::ScaledCount("QUIRE_DATASET_CRASH_POINTS", 1000));
}

TEST(DatasetCrash, AStopAtAnyCallLeavesCompleteEpochsAndNoOthers) {
  Live(Mishap::kStop, test::ScaledCount("QUIRE_DATASET_CRASH_POINTS", 1000));
}

// Each of two ranks has a disk of its own; that of rank 1 was cut off while its files were made.
void ExpectFoundFilesToLast(DatasetFormat format, uint64_t step, uint64_t seed, bool* cut) {
  std::unique_ptr<io::SimFileSystem> disks[] = {io::NewSimFileSystem(), io::NewSimFileSystem()};
  const auto run = [&](const std::function<void(runtime::ContextState&, Result<Writer>)>& program) {
    runtime::SimRanksOptions ranks;
    ranks.rank_count = 2;
    ranks.seed = seed;
    ranks.file_system = [&disks](int rank) { return disks[rank].get(); };
    RunSimRanks(ranks, [&](const std::shared_ptr<runtime::ContextState>& context) {
      program(*context, OpenWriter(context, SmallDataset(format)));
    });
  };
  disks[1]->CrashAfter(step);
  run([](runtime::ContextState&, const Result<Writer>&) {});
  *cut = disks[1]->crashed();
  disks[1]->Restart(io::CrashKind::kProcess, seed);
  disks[1]->CrashAfter(UINT64_MAX);
  run([](runtime::ContextState& context, Result<Writer> writer) {
    ASSERT_OK(writer.status());
    ASSERT_OK(WriteEpoch(**writer, 1, context.rank(), context.size(), kCount));
  });
  disks[1]->Restart(io::CrashKind::kPower, seed);
  run([](runtime::ContextState&, Result<Writer> writer) {
    ASSERT_OK(writer.status());
    EXPECT_EQ((*writer)->LastEpoch(), 1u);
  });
}

TEST(DatasetCrash, FilesThatAKilledJobMadeLastAsLongAsTheNextEpoch) {
  for (const DatasetFormat format : {DatasetFormat::kPointer, DatasetFormat::kRibbon}) {
    bool cut = true;
    for (uint64_t step = 1; cut; ++step) {
      for (uint64_t seed = 1; seed <= 8; ++seed) {
        ASSERT_NO_FATAL_FAILURE(ExpectFoundFilesToLast(format, step, seed, &cut));
        ASSERT_FALSE(testing::Test::HasFailure())
            << FormatName(format) << ", step " << step << ", seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace quire::dataset::dataset_crash_test
