#include "kv/protocol/counters.h"

namespace quire::kv {

const char* CounterName(Counter counter) {
  switch (counter) {
    case Counter::kPutsLocal:
      return "puts.local";
    case Counter::kPutsStaged:
      return "puts.staged";
    case Counter::kPutsSequential:
      return "puts.sequential";
    case Counter::kUpdatesLocal:
      return "updates.local";
    case Counter::kUpdatesStaged:
      return "updates.staged";
    case Counter::kUpdatesSequential:
      return "updates.sequential";
    case Counter::kGetsLocal:
      return "gets.local";
    case Counter::kGetsStaged:
      return "gets.staged";
    case Counter::kGetsDirect:
      return "gets.direct";
    case Counter::kGetsDirectBusy:
      return "gets.direct_busy";
    case Counter::kGetsInGroup:
      return "gets.group";
    case Counter::kGetsByMessage:
      return "gets.message";
    case Counter::kLocalCacheHits:
      return "cache.local.hits";
    case Counter::kRemoteCacheHits:
      return "cache.remote.hits";
    case Counter::kBatchesSent:
      return "migration.batches";
    case Counter::kBatchBytesSent:
      return "migration.bytes";
    case Counter::kStagingStalls:
      return "migration.stalls";
    case Counter::kOperationsLost:
      return "migration.lost";
    case Counter::kOperationsUnknown:
      return "migration.unknown";
    case Counter::kRequestsServed:
      return "requests.served";
  }
  return "unknown";
}

size_t Counters::StripeIndex() {
  static std::atomic<size_t> next{0};
  thread_local const size_t index = next.fetch_add(1, std::memory_order_relaxed) % kStripeCount;
  return index;
}

}  // namespace quire::kv
