// Writing a dataset with a crash at any step: what was complete stays, what was told to be complete
// is there, and nothing that is there is torn. QUIRE_DATASET_CRASH_POINTS sets how many points.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "io/sim_file_system.h"
#include "partition/dataset_reader.h"
#include "partition/dataset_testing.h"
#include "partition/files.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::partition {
namespace {

constexpr int kCount = 150;
constexpr uint64_t kEpochs = 5;
constexpr int kSizeMax = 4;

// One dataset whose writers are cut off, once or more, until all of its epochs are there.
class Life {
 public:
  explicit Life(uint64_t seed)
      : seed_(seed), random_(seed), format_(static_cast<DatasetFormat>(random_.Below(5))) {}

  void Run() {
    while (sizes_.size() < kEpochs) {
      const uint64_t steps = random_.OneIn(4) ? UINT64_MAX : 1 + random_.Below(220);
      Cut(steps);
      if (testing::Test::HasFailure()) return;
      Look();
      if (testing::Test::HasFailure()) return;
    }
  }
  int cut_count() const { return cut_count_; }

 private:
  // A job of some ranks that writes the epochs that are left, and is cut off after so many steps.
  void Cut(uint64_t steps) {
    runtime::SimRanksOptions ranks;
    ranks.rank_count = static_cast<int>(1 + random_.Below(kSizeMax));
    ranks.seed = ++seed_;
    ranks.timeout_ms = 2000;
    ranks.file_system = [this](int) { return disk_.get(); };
    size_ = ranks.rank_count;
    told_ = sizes_.size();
    disk_->CrashAfter(steps);
    RunSimRanks(ranks, [&](const std::shared_ptr<runtime::Core>& core) { Write(core); });
    const bool cut = disk_->crashed();
    if (cut) {
      ++cut_count_;
      const auto kind = random_.OneIn(2) ? io::CrashKind::kPower : io::CrashKind::kProcess;
      disk_->Restart(kind, seed_);
    } else {
      disk_->CrashAfter(UINT64_MAX);
    }
  }

  void Write(const std::shared_ptr<runtime::Core>& core) {
    auto writer = OpenWriter(core, SmallDataset(format_));
    if (!writer.ok()) return;
    for (uint64_t epoch = sizes_.size() + 1; epoch <= kEpochs; ++epoch) {
      if (!WriteEpoch(**writer, epoch, core->rank(), size_, kCount).ok()) return;
      uint64_t told = told_;
      while (told < epoch && !told_.compare_exchange_weak(told, epoch)) {
      }
    }
    static_cast<void>((*writer)->Finish());
  }

  void Look() {
    const auto reader = OpenReader(*disk_, kDatasetDirectory, {});
    if (!reader.ok() && reader.status().code() == Code::kNotFound && told_ == 0) return;
    ASSERT_OK(reader.status());
    const std::vector<uint64_t> numbers = NumbersOf(**reader);
    ASSERT_GE(numbers.size(), told_) << "an epoch is lost";
    ASSERT_GE(numbers.size(), sizes_.size());
    sizes_.resize(numbers.size(), size_);
    for (uint64_t epoch = 1; epoch <= numbers.size(); ++epoch) {
      ASSERT_EQ(numbers[epoch - 1], epoch);
      ASSERT_NO_FATAL_FAILURE(
          ExpectEpoch(**reader, epoch, TruthOf(epoch, sizes_[epoch - 1], kCount)));
      ASSERT_OK((*reader)->Verify(epoch));
    }
  }

  uint64_t seed_;
  base::Random random_;
  const DatasetFormat format_;
  std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  std::vector<int> sizes_;  // of each complete epoch: the ranks that wrote it
  int size_ = 0;
  std::atomic<uint64_t> told_{0};
  int cut_count_ = 0;
};

TEST(DatasetCrash, AtAnyStepLeavesCompleteEpochsAndNoOthers) {
  const int64_t points = test::ScaledCount("QUIRE_DATASET_CRASH_POINTS", 300);
  int64_t cut_count = 0;
  for (uint64_t seed = 1; cut_count < points; ++seed) {
    Life life(seed * 1'000'000);
    life.Run();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    cut_count += life.cut_count();
  }
}

}  // namespace
}  // namespace quire::partition
