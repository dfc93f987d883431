/// The ordered face of a MemTable: sorted runs of (key prefix, record), frozen at an LSN.
///
/// Layer      lsm
/// Threads    immutable once made; iterators over it belong to one thread each
/// Source     LSM-tree idea applied inside the MemTable: runs grow geometrically, so that each key
///            is merged O(log n) times
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "table/entry_iterator.h"

namespace quire::lsm {

/// The first bytes of a key, and the place of one of its records.
struct SortedEntry {
  uint64_t prefix;  ///< base::KeyPrefix of what follows the bytes that all keys of the run share
  uint32_t record;  ///< offset/8 of a record of that key in the segment
  uint32_t slot;    ///< the key's slot in the index: the head of its versions
};

class SortedView {
 public:
  virtual ~SortedView() = default;
  /// Returns an iterator over entries with LSN <= the view's: every version (newest first) or, with
  /// `newest_only`, one per key; no range tombstones. The view (and so the MemTable's memory) must
  /// outlive the iterator; the caller pins the MemTable.
  virtual std::unique_ptr<table::EntryIterator> NewIterator(bool newest_only) const = 0;
  /// Returns the range tombstones at or below the view's LSN, newest first.
  virtual std::vector<table::RangeTombstone> RangeTombstones() const = 0;
  /// Returns the number of distinct keys with a version in the view. Cost: none, unless a later
  /// view was made before.
  virtual uint64_t key_count() const = 0;
};

}  // namespace quire::lsm
