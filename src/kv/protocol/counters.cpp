#include "kv/protocol/counters.h"

namespace quire::kv {

const char* CounterName(DatabaseCounter counter) {
  switch (counter) {
    case DatabaseCounter::kPutsLocal:
      return "puts.local";
    case DatabaseCounter::kPutsStaged:
      return "puts.staged";
    case DatabaseCounter::kPutsSequential:
      return "puts.sequential";
    case DatabaseCounter::kUpdatesLocal:
      return "updates.local";
    case DatabaseCounter::kUpdatesStaged:
      return "updates.staged";
    case DatabaseCounter::kUpdatesSequential:
      return "updates.sequential";
    case DatabaseCounter::kGetsLocal:
      return "gets.local";
    case DatabaseCounter::kGetsStaged:
      return "gets.staged";
    case DatabaseCounter::kGetsDirect:
      return "gets.direct";
    case DatabaseCounter::kGetsDirectBusy:
      return "gets.direct_busy";
    case DatabaseCounter::kGetsInGroup:
      return "gets.group";
    case DatabaseCounter::kGetsByMessage:
      return "gets.message";
    case DatabaseCounter::kLocalCacheHits:
      return "cache.local.hits";
    case DatabaseCounter::kRemoteCacheHits:
      return "cache.remote.hits";
    case DatabaseCounter::kBatchesSent:
      return "migration.batches";
    case DatabaseCounter::kBatchBytesSent:
      return "migration.bytes";
    case DatabaseCounter::kStagingStalls:
      return "migration.stalls";
    case DatabaseCounter::kOperationsLost:
      return "migration.lost";
    case DatabaseCounter::kOperationsUnknown:
      return "migration.unknown";
    case DatabaseCounter::kRequestsServed:
      return "requests.served";
  }
  return "unknown";
}

size_t DatabaseCounters::StripeIndex() {
  static std::atomic<size_t> next{0};
  thread_local const size_t index = next.fetch_add(1, std::memory_order_relaxed) % kStripeCount;
  return index;
}

}  // namespace quire::kv
