/// Decides whether a waiting thread should spin, by the outcome of recent spins.
///
/// Layer      comm
/// Threads    any; counts may be lost, which does not matter
#pragma once

#include <atomic>
#include <cstdint>

namespace quire::comm {

/// The decision of one kind of wait. A thread that spins while the other one needs its core, or
/// while answers take longer, only delays both. After some unsuccessful spins most waits do not
/// spin; now and then one tries again.
class AdaptiveSpin {
 public:
  explicit AdaptiveSpin(uint64_t spin_ns) : spin_ns_(spin_ns) {}

  /// Returns how long to spin in the next wait.
  uint64_t BudgetNs() {
    if (spin_ns_ == 0 || failures_.load(std::memory_order_relaxed) < kFailuresMax) return spin_ns_;
    const uint32_t skipped = skipped_.load(std::memory_order_relaxed) + 1;
    skipped_.store(skipped, std::memory_order_relaxed);
    return skipped % kWaitsPerTrial == 0 ? spin_ns_ : 0;
  }
  /// Records that the awaited event came while spinning.
  void Succeeded() {
    if (failures_.load(std::memory_order_relaxed) != 0) {
      failures_.store(0, std::memory_order_relaxed);
    }
  }
  /// Records that it did not come in time.
  void Failed() {
    failures_.store(failures_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kFailuresMax = 4;
  static constexpr uint32_t kWaitsPerTrial = 16;
  const uint64_t spin_ns_;
  std::atomic<uint32_t> failures_{0};
  std::atomic<uint32_t> skipped_{0};
};

}  // namespace quire::comm
