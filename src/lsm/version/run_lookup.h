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

/// The result of a lookup in the runs.
struct RunLookup {
  enum class State { kAbsent, kValue, kValueRef, kDeleted };
  State state = State::kAbsent;
  Slice value;  ///< inside the caller's EpochGuard; kValueRef: the 32 bytes of a log::ValueRef
  table::CachedBlock* block = nullptr;  ///< that the value points into
  uint64_t filter_skips = 0;  ///< tables that their filters spared
  uint64_t filter_false = 0;  ///< tables that were searched in vain
};

/// The newest version of `key` at or below `lsn`, range tombstones applied.
Status LookupRuns(const std::vector<std::shared_ptr<const Run>>& runs, Slice key, uint64_t hash,
                  uint64_t lsn, RunLookup* found);

}  // namespace quire::lsm
