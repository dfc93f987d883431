/// One bounded memory for data blocks, indexes and filters of all open tables. A hit is one load and no lock.
///
/// Layer      table
/// Source     PapyrusKV, SC17, section 2.6: "loads the SSIndex in memory"
/// Threads    all functions from any thread; lookups inside a base::EpochGuard
/// Invariants charged bytes <= capacity + one block per concurrent reader; a block found inside an EpochGuard stays
///            readable until the guard leaves, or as long as a pin is held.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "quire/slice.h"

namespace quire::table {

/// Bytes in memory with what the clock needs. Freed through base::EpochRetire once evicted and unpinned.
class CachedBlock;

/// The place from which a block hangs: one per block of an open table.
using CacheSlot = std::atomic<CachedBlock*>;

struct CacheStatistics {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t evictions = 0;
  uint64_t charged_bytes = 0;
  uint64_t capacity_bytes = 0;
};

class BlockCache;  // defined by the implementation of this folder

}  // namespace quire::table
