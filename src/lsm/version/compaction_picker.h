/// Chooses the runs to merge next: a pure function of their sizes.
///
/// Layer      lsm
/// Source     PapyrusKV, SC17, section 2.5 (kEveryNth); size-tiered merging (Cassandra, RocksDB's
///            universal style)
/// Threads    pure functions
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "quire/options.h"

namespace quire::lsm {

/// A run as the picker sees it.
struct RunShape {
  uint64_t bytes = 0;
  uint64_t newest_ssid = 0;
  bool busy = false;   ///< an input of a merge under way
};

/// Neighbours to merge: runs [first, first + count) of the given ones. count 0: nothing is due.
struct CompactionChoice {
  size_t first = 0;
  size_t count = 0;
};

/// Returns the merge that is due for `runs`, newest first, among merges of fewer than `bytes_end`
/// bytes. Runs behind a busy one must wait until that merge is done.
///
/// kTiered merges all runs when those before the oldest hold dead_percent_max of its bytes (so that
/// dead versions take at most about that share of the live ones), and otherwise the first
/// compaction_trigger or more neighbours each of which is at most as large as all those before it
/// together. kEveryNth merges all runs when a flush made an SSID divisible by compaction_trigger.
CompactionChoice PickCompaction(const std::vector<RunShape>& runs, const StorageOptions& options,
                                uint64_t bytes_end = UINT64_MAX);
/// Returns the bytes of all runs.
uint64_t BytesOf(const std::vector<RunShape>& runs);

/// Returns the number of runs from which on flushes wait for a merge, if it has a thread: bounds
/// the runs that a lookup searches.
size_t RunCountMax(const StorageOptions& options);

}  // namespace quire::lsm
