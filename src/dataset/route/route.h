/// Chooses the route from a rank to a partition: direct, or, with many ranks, in two hops over a
/// grid, so that a rank needs buffers for about 2 sqrt N others instead of N.
///
/// Rank r is at row r / W, column r mod W, W = ceil(sqrt N). The first hop goes along the sender's
/// row to the column of the partition, the second along that column. If the last row is too short
/// to have that column, the first hop goes along the row before it.
///
/// Layer      dataset
/// Source     docs/decisions/0011-partitioned-datasets.md
/// Threads    a value
#pragma once

#include <cstdint>

namespace quire::dataset {

class Route {
 public:
  Route(uint32_t rank, uint32_t size, uint32_t grid_ranks_min);

  bool grid() const { return width_ != 0; }
  /// Returns the number of destinations of this rank: for its own entries, and (below) for entries
  /// that it forwards.
  uint32_t first_slots() const { return grid() ? width_ : size_; }
  uint32_t second_slots() const { return grid() ? RowOf(size_ - 1) + 1 : 0; }
  uint32_t FirstSlot(uint32_t hop) const { return grid() ? hop % width_ : hop; }
  uint32_t SecondSlot(uint32_t hop) const { return RowOf(hop); }
  /// Returns the partition of the keys with this hash, if there is no partitioner.
  uint32_t PartitionOf(uint64_t hash) const;
  /// Returns the rank to which entries for `partition` are sent first.
  uint32_t FirstHop(uint32_t partition) const;
  /// Returns the mark for the second hop in a grid, by which the receiver knows that `source` sent
  /// an entry that this rank forwards.
  uint16_t MarkOf(uint32_t source) const;
  /// Returns the sender of what `passer` forwarded with that mark; size() or more if there is none.
  uint32_t SourceOf(uint32_t passer, uint16_t mark) const;
  /// Returns whether `source` may send entries to this rank for forwarding; and whether they may be
  /// for `partition`, which must be in this column.
  bool MayPass(uint32_t source) const;
  bool MayPassTo(uint32_t partition) const { return partition % width_ == rank_ % width_; }
  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }

 private:
  uint32_t RowOf(uint32_t rank) const { return rank / width_; }

  uint32_t rank_;
  uint32_t size_;
  uint32_t width_;  ///< 0: direct
};

}  // namespace quire::dataset
