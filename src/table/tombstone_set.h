/// The range tombstones of a table, arranged to find the newest one that covers a key.
///
/// Layer      table
/// Source     Cormen et al., Introduction to Algorithms: interval trees; here laid out in an array
/// Threads    immutable
#pragma once

#include <cstdint>
#include <vector>

#include "quire/slice.h"
#include "table/entry_iterator.h"

namespace quire::table {

class TombstoneSet {
 public:
  TombstoneSet() = default;
  explicit TombstoneSet(const std::vector<RangeTombstone>& tombstones);
  bool empty() const { return nodes_.empty(); }
  /// Returns the LSN of the newest one at or below `snapshot` whose range contains `key`; 0: none.
  /// Cost: O(log n) plus those that cover the key.
  uint64_t Covering(Slice key, uint64_t snapshot) const;

 private:
  /// The middle of a range of nodes_ is the root of the range's tree.
  struct Node {
    const RangeTombstone* tombstone;  ///< of the vector the set was made from
    Slice end_max;                    ///< highest end in the node's tree
  };

  Slice FillEnds(size_t first, size_t last);
  void Search(size_t first, size_t last, Slice key, uint64_t snapshot, uint64_t* newest) const;

  std::vector<Node> nodes_;  ///< by rising begin
};

}  // namespace quire::table
