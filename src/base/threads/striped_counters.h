/// Event counters to which many threads add at once, each in its own cache lines: adding is cheap,
/// and the sums are exact.
///
/// Layer      base
/// Threads    any
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace quire::base {

/// The number of stripes, to which the threads are assigned in turn.
constexpr size_t kCounterStripes = 16;

inline size_t CounterStripeOfThread() {
  static std::atomic<size_t> next{0};
  thread_local const size_t stripe = next.fetch_add(1, std::memory_order_relaxed) % kCounterStripes;
  return stripe;
}

/// A counter for each enumerator below Counter::kCount.
template <typename Counter>
class StripedCounters {
 public:
  void Add(Counter counter, uint64_t amount = 1) {
    stripes_[CounterStripeOfThread()].values[static_cast<size_t>(counter)].fetch_add(
        amount, std::memory_order_relaxed);
  }
  uint64_t Sum(Counter counter) const {
    uint64_t sum = 0;
    for (const Stripe& stripe : stripes_) {
      sum += stripe.values[static_cast<size_t>(counter)].load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  struct alignas(128) Stripe {
    std::array<std::atomic<uint64_t>, static_cast<size_t>(Counter::kCount)> values{};
  };
  std::array<Stripe, kCounterStripes> stripes_;
};

}  // namespace quire::base
