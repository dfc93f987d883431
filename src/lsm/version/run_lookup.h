/// Point lookup in runs of tables, newest first: the same for the owner and for its neighbours.
///
/// Layer      lsm (internal)
/// Source     PapyrusKV, SC17, section 2.6 (search order)
/// Threads    any, inside an EpochGuard
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lsm/version/version.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::lsm {

/// The numbers of tables that filters excluded, and of tables that were searched in vain.
struct FilterCounts {
  uint64_t skips = 0;   ///< not searched
  uint64_t misses = 0;  ///< searched, and without the key
};

/// Finds the newest version of `key` at or below `lsn`, range tombstones applied. `found` is absent
/// before the call.
Status LookupRuns(const std::vector<std::shared_ptr<const Run>>& runs, Slice key, uint64_t hash,
                  uint64_t lsn, table::LookupResult* found, FilterCounts* counts);

}  // namespace quire::lsm
