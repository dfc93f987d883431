// The memory of a rank while far more than its limit is written.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>
#include <tuple>

#include "base/core/sanitizer.h"
#include "parallel_fixture.h"
#include "quire/dataset.h"
#include "tests/support/test_scale.h"

namespace quire::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kLimitBytes = 64 * kMiB;
constexpr uint64_t kAllowanceBytes = 64 * kMiB;
// So many times its limit a rank writes.
uint64_t TimesTheLimit() {
  return static_cast<uint64_t>(std::clamp<int64_t>(ScaledCount(10), 3, 10));
}

uint64_t StatusBytes(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name, 0) == 0) return std::stoull(line.substr(name.size())) * 1024;
  }
  ADD_FAILURE() << "/proc/self/status has no " << name;
  return 0;
}

// All resident memory of this process: its own, shared, and what it has mapped of files.
uint64_t ResidentBytes() {
  return StatusBytes("VmRSS:");
}

// Without files, whose pages the kernel can take back at any time (docs/limitations.md).
uint64_t HeldBytes() {
  return StatusBytes("RssAnon:") + StatusBytes("RssShmem:");
}

class PeakWatch {
 public:
  explicit PeakWatch(uint64_t (*bytes)()) : start_bytes_(bytes()), peak_bytes_(start_bytes_) {
    thread_ = std::thread([this, bytes] {
      while (!stop_) {
        peak_bytes_ = std::max<uint64_t>(peak_bytes_, bytes());
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
  }
  ~PeakWatch() {
    stop_ = true;
    thread_.join();
  }
  uint64_t GrowthBytes() const { return peak_bytes_ - start_bytes_; }

 private:
  const uint64_t start_bytes_;
  std::atomic<uint64_t> peak_bytes_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class Memory : public Parallel, public testing::WithParamInterface<size_t> {
 protected:
  void PutAll(Database& db, uint64_t bytes) {
    std::string value(GetParam(), 'v');
    for (uint64_t i = 0; i < bytes / value.size(); ++i) {
      const std::string key = Key(rank_, static_cast<int>(i));
      key.copy(value.data(), value.size());
      ASSERT_OK(db.Put(key, value));
    }
  }
};

TEST_P(Memory, StaysWithinTheLimitWhileFarMoreIsWritten) {
  if (QUIRE_ADDRESS_SANITIZER) GTEST_SKIP() << "a sanitizer's own memory is not Quire's";
  ContextOptions limited;
  limited.memory_bytes = kLimitBytes;
  const auto context = NewContext(limited);
  ASSERT_NE(context, nullptr);
  const auto db = NewDatabase(*context, "db", {});
  ASSERT_NE(db, nullptr);
  const PeakWatch watch(ResidentBytes);
  PutAll(*db, TimesTheLimit() * kLimitBytes);
  ASSERT_OK(db->Barrier(Level::kSsTable));
  EXPECT_LE(watch.GrowthBytes(), kLimitBytes + kAllowanceBytes)
      << watch.GrowthBytes() / kMiB << " MiB more than at the start";
  ASSERT_OK(db->Close());
}

INSTANTIATE_TEST_SUITE_P(ValueBytes, Memory, testing::Values(100, 4096, 1 << 20));

class MovingMemory : public Memory {
 protected:
  static constexpr uint64_t kBytes = kLimitBytes / 2;

  static ContextOptions Limited() {
    ContextOptions options;
    options.memory_bytes = kBytes;
    return options;
  }
  void Fill() {
    const auto context = NewContext(Limited());
    ASSERT_NE(context, nullptr);
    const auto db = NewDatabase(*context, "db", {});
    ASSERT_NE(db, nullptr);
    PutAll(*db, TimesTheLimit() * kBytes / static_cast<uint64_t>(size_));
    ASSERT_OK(db->Close());
  }
};

// The first rank reads the pairs of all ranks, and moves them to itself.
TEST_P(MovingMemory, StaysWithinTheLimitWhileFarMoreGoesToFewerRanks) {
  if (QUIRE_ADDRESS_SANITIZER) GTEST_SKIP() << "a sanitizer's own memory is not Quire's";
  Fill();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) {
    const auto context = OpenContext(MPI_COMM_SELF, directory_ + "/repository", Limited());
    ASSERT_OK(context.status());
    DatabaseOptions options;
    options.mode = OpenMode::kMustExist;
    options.redistribute = true;
    const PeakWatch watch(HeldBytes);
    const auto db = (*context)->Open("db", options);
    ASSERT_OK(db.status());
    EXPECT_LE(watch.GrowthBytes(), kBytes) << watch.GrowthBytes() / kMiB << " MiB more";
    for (int rank = 0; rank < size_; ++rank) {
      std::string value;
      ASSERT_OK((*db)->Get(Key(rank, 1000), &value));
      EXPECT_EQ(value.size(), GetParam());
    }
    ASSERT_OK((*db)->Close());
  }
}

INSTANTIATE_TEST_SUITE_P(ValueBytes, MovingMemory, testing::Values(4096));

// Format, bytes of a value.
class DatasetMemory : public Parallel,
                      public testing::WithParamInterface<std::tuple<DatasetFormat, size_t>> {};

// A writer plans with half of what there is.
TEST_P(DatasetMemory, StaysWithinTheLimitWhileFarMoreIsWritten) {
  if (QUIRE_ADDRESS_SANITIZER) GTEST_SKIP() << "a sanitizer's own memory is not Quire's";
  const auto [format, value_bytes] = GetParam();
  ContextOptions limited;
  limited.memory_bytes = kLimitBytes;
  const auto context = NewContext(limited);
  ASSERT_NE(context, nullptr);
  DatasetOptions options;
  options.format = format;
  const PeakWatch watch(HeldBytes);
  auto writer = DatasetWriter::Open(*context, "steps", options);
  ASSERT_OK(writer.status());
  const uint64_t count = std::min<uint64_t>(
      1'000'000 * TimesTheLimit(), TimesTheLimit() * kLimitBytes / (value_bytes + sizeof(uint64_t)));
  const std::string value(value_bytes, 'v');
  ASSERT_OK((*writer)->BeginEpoch(1));
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t key = i * static_cast<uint64_t>(size_) + static_cast<uint64_t>(rank_);
    ASSERT_OK((*writer)->Put(Slice(reinterpret_cast<const char*>(&key), sizeof key), value));
  }
  ASSERT_OK((*writer)->EndEpoch());
  EXPECT_LE(watch.GrowthBytes(), kLimitBytes / 2)
      << watch.GrowthBytes() / kMiB << " MiB more than at the start";
  ASSERT_OK((*writer)->Finish());
}

INSTANTIATE_TEST_SUITE_P(Sizes, DatasetMemory,
                         testing::Combine(testing::Values(DatasetFormat::kPointer,
                                                          DatasetFormat::kRibbon),
                                          testing::Values(8, 4096)));

}  // namespace
}  // namespace quire::test
