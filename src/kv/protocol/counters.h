/// The events that a parallel database counts on each rank, and their names.
///
/// Layer      kv
/// Threads    any
#pragma once

#include <array>
#include <cstddef>

#include "base/striped_counters.h"

namespace quire::kv {

/// docs/statistics.md says what each means.
enum class DatabaseCounter : size_t {
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
  kCount
};

/// By DatabaseCounter.
constexpr std::array<const char*, static_cast<size_t>(DatabaseCounter::kCount)> kCounterNames = {
    "puts.local",       "puts.staged",        "puts.sequential",   "updates.local",
    "updates.staged",   "updates.sequential", "gets.local",        "gets.staged",
    "gets.direct",      "gets.direct_busy",   "gets.group",        "gets.message",
    "cache.local.hits", "cache.remote.hits",  "migration.batches", "migration.bytes",
    "migration.stalls", "migration.lost",     "migration.unknown", "requests.served",
};
static_assert(kCounterNames.back() != nullptr);

using DatabaseCounters = base::StripedCounters<DatabaseCounter>;

}  // namespace quire::kv
