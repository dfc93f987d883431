/// The events that a rank's database counts.
///
/// Layer      lsm
/// Threads    any
#pragma once

#include <cstddef>

#include "base/threads/striped_counters.h"

namespace quire::lsm {

enum class StorageCounter : size_t {
  kUserBytes,
  kMemoryHits,
  kTableHits,
  kFilterSkips,
  kFilterFalse,
  kFlushBytes,
  kFlushCount,
  kCompactionReadBytes,
  kCompactionWriteBytes,
  kCompactionCount,
  kStallNs,
  kLogBytes,
  kValueLogBytes,
  kCount
};

using StorageCounters = base::StripedCounters<StorageCounter>;

}  // namespace quire::lsm
