/// Event counts that many threads add to at once: each thread in cache lines of its own.
///
/// Layer      lsm
/// Threads    any
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace quire::lsm {

enum class StorageCounter : size_t {
  kUserBytes,
  kMemoryHits,
  kTableHits,
  kFilterSkips,
  kFilterFalse,
  kFlushBytes,
  kFlushCount,
  kCompactionReadBytes,
  kCompactionWriteBytes,
  kCompactionCount,
  kStallNs,
  kLogBytes,
  kValueLogBytes,
  kCount
};

class StorageCounters {
 public:
  void Add(StorageCounter counter, uint64_t amount) {
    stripes_[StripeOfThread()].values[static_cast<size_t>(counter)].fetch_add(
        amount, std::memory_order_relaxed);
  }
  uint64_t Sum(StorageCounter counter) const {
    uint64_t sum = 0;
    for (const Stripe& stripe : stripes_) {
      sum += stripe.values[static_cast<size_t>(counter)].load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  static constexpr size_t kStripes = 16;
  struct alignas(128) Stripe {
    std::array<std::atomic<uint64_t>, static_cast<size_t>(StorageCounter::kCount)> values{};
  };
  static size_t StripeOfThread() {
    static std::atomic<size_t> next{0};
    thread_local const size_t stripe = next.fetch_add(1, std::memory_order_relaxed) % kStripes;
    return stripe;
  }

  std::array<Stripe, kStripes> stripes_;
};

}  // namespace quire::lsm
