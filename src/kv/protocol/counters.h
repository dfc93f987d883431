/// The events that a parallel database counts on each rank, and their names.
///
/// Layer      kv
/// Threads    any
#pragma once

#include <array>
#include <cstddef>

#include "base/threads/striped_counters.h"

namespace quire::kv {

/// docs/statistics.md explains each counter.
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

struct CounterName {
  DatabaseCounter counter;
  const char* name;
};
/// Every counter, in the order of DatabaseCounter.
constexpr std::array<CounterName, static_cast<size_t>(DatabaseCounter::kCount)> kCounterNames = {{
    {DatabaseCounter::kPutsLocal, "puts.local"},
    {DatabaseCounter::kPutsStaged, "puts.staged"},
    {DatabaseCounter::kPutsSequential, "puts.sequential"},
    {DatabaseCounter::kUpdatesLocal, "updates.local"},
    {DatabaseCounter::kUpdatesStaged, "updates.staged"},
    {DatabaseCounter::kUpdatesSequential, "updates.sequential"},
    {DatabaseCounter::kGetsLocal, "gets.local"},
    {DatabaseCounter::kGetsStaged, "gets.staged"},
    {DatabaseCounter::kGetsDirect, "gets.direct"},
    {DatabaseCounter::kGetsDirectBusy, "gets.direct_busy"},
    {DatabaseCounter::kGetsInGroup, "gets.group"},
    {DatabaseCounter::kGetsByMessage, "gets.message"},
    {DatabaseCounter::kLocalCacheHits, "cache.local.hits"},
    {DatabaseCounter::kRemoteCacheHits, "cache.remote.hits"},
    {DatabaseCounter::kBatchesSent, "migration.batches"},
    {DatabaseCounter::kBatchBytesSent, "migration.bytes"},
    {DatabaseCounter::kStagingStalls, "migration.stalls"},
    {DatabaseCounter::kOperationsLost, "migration.lost"},
    {DatabaseCounter::kOperationsUnknown, "migration.unknown"},
    {DatabaseCounter::kRequestsServed, "requests.served"},
}};
static_assert([] {
  for (size_t i = 0; i < kCounterNames.size(); ++i) {
    if (kCounterNames[i].counter != static_cast<DatabaseCounter>(i)) return false;
  }
  return true;
}());

using DatabaseCounters = base::StripedCounters<DatabaseCounter>;

}  // namespace quire::kv
