/// The known part of the order of a MemTable's keys: sorted runs over the part of the log that
/// views have covered.
///
/// Layer      lsm (internal)
/// Threads    under `mutex`; the runs themselves are immutable
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "log/segment.h"
#include "lsm/memtable/memtable.h"
#include "lsm/memtable/sorted_keys.h"

namespace quire::lsm {

struct MemTable::Views {
  std::mutex mutex;  ///< also serializes quiescing
  /// Disjoint by key, oldest and largest first: each at least twice the next, except the last ones.
  std::vector<std::shared_ptr<const SortedKeys>> runs;
  /// Every key with a version below this offset is in a run.
  uint64_t covered_end = log::kSegmentHeaderBytes;
};

}  // namespace quire::lsm
