/// Counts of what happened, by kind: cheap from many threads, exact when added up.
///
/// Layer      kv
/// Threads    any
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace quire::kv {

/// What is counted. The names that users see: CounterName, docs/statistics.md.
enum class DatabaseCounter {
  kPutsLocal,
  kPutsStaged,
  kPutsSequential,
  kUpdatesLocal,
  kUpdatesStaged,
  kUpdatesSequential,
  kGetsLocal,
  kGetsStaged,
  kGetsDirect,
  kGetsDirectBusy,
  kGetsInGroup,
  kGetsByMessage,
  kLocalCacheHits,
  kRemoteCacheHits,
  kBatchesSent,
  kBatchBytesSent,
  kStagingStalls,
  kOperationsLost,
  kOperationsUnknown,
  kRequestsServed,
};
constexpr size_t kCounterCount = static_cast<size_t>(DatabaseCounter::kRequestsServed) + 1;

/// "puts.local" and so on.
const char* CounterName(DatabaseCounter counter);

class DatabaseCounters {
 public:
  void Add(DatabaseCounter counter, uint64_t count = 1) {
    stripes_[StripeIndex()].counts[static_cast<size_t>(counter)].fetch_add(
        count, std::memory_order_relaxed);
  }
  uint64_t Sum(DatabaseCounter counter) const {
    uint64_t sum = 0;
    for (const Stripe& stripe : stripes_) {
      sum += stripe.counts[static_cast<size_t>(counter)].load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  static constexpr size_t kStripeCount = 8;
  struct alignas(64) Stripe {
    std::array<std::atomic<uint64_t>, kCounterCount> counts = {};
  };
  static size_t StripeIndex();

  std::array<Stripe, kStripeCount> stripes_;
};

}  // namespace quire::kv
