// What a rank holds in memory while far more than its limit is written.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/sanitizer.h"
#include "parallel_fixture.h"

namespace quire::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kLimitBytes = 64 * kMiB;
constexpr uint64_t kAllowanceBytes = 64 * kMiB;
constexpr uint64_t kTimesTheLimit = 10;

// All resident memory of this process: its own, shared, and what it has mapped of files.
uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::stoull(line.substr(6)) * 1024;
  }
  ADD_FAILURE() << "/proc/self/status has no VmRSS";
  return 0;
}

class PeakWatch {
 public:
  PeakWatch() : start_bytes_(ResidentBytes()), peak_bytes_(start_bytes_) {
    thread_ = std::thread([this] {
      while (!stop_) {
        peak_bytes_ = std::max<uint64_t>(peak_bytes_, ResidentBytes());
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

class Memory : public Parallel, public testing::WithParamInterface<size_t> {};

TEST_P(Memory, StaysWithinTheLimitWhileTenTimesAsMuchIsWritten) {
  if (QUIRE_ADDRESS_SANITIZER) GTEST_SKIP() << "a sanitizer's own memory is not Quire's";
  ContextOptions limited;
  limited.memory_bytes = kLimitBytes;
  const auto context = NewContext(limited);
  ASSERT_NE(context, nullptr);
  const auto db = NewDatabase(*context, "db", {});
  ASSERT_NE(db, nullptr);
  const PeakWatch watch;
  std::string value(GetParam(), 'v');
  const uint64_t count = kTimesTheLimit * kLimitBytes / value.size();
  for (uint64_t i = 0; i < count; ++i) {
    const std::string key = Key(rank_, static_cast<int>(i));
    key.copy(value.data(), value.size());
    ASSERT_OK(db->Put(key, value));
  }
  ASSERT_OK(db->Barrier(Level::kSsTable));
  EXPECT_LE(watch.GrowthBytes(), kLimitBytes + kAllowanceBytes)
      << watch.GrowthBytes() / kMiB << " MiB more than at the start";
  ASSERT_OK(db->Close());
}

INSTANTIATE_TEST_SUITE_P(ValueBytes, Memory, testing::Values(100, 4096, 1 << 20));

}  // namespace
}  // namespace quire::test
