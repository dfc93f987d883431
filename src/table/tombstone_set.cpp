#include "table/tombstone_set.h"

#include <algorithm>

namespace quire::table {

TombstoneSet::TombstoneSet(const std::vector<RangeTombstone>& tombstones) {
  nodes_.reserve(tombstones.size());
  for (const RangeTombstone& tombstone : tombstones) nodes_.push_back({&tombstone, Slice()});
  std::sort(nodes_.begin(), nodes_.end(),
            [](const Node& a, const Node& b) { return a.tombstone->begin < b.tombstone->begin; });
  FillEnds(0, nodes_.size());
}

Slice TombstoneSet::FillEnds(size_t first, size_t last) {
  if (first == last) return Slice();
  const size_t middle = first + (last - first) / 2;
  Node& node = nodes_[middle];
  node.end_max =
      std::max({Slice(node.tombstone->end), FillEnds(first, middle), FillEnds(middle + 1, last)});
  return node.end_max;
}

uint64_t TombstoneSet::Covering(Slice key, uint64_t snapshot) const {
  uint64_t newest = 0;
  Search(0, nodes_.size(), key, snapshot, &newest);
  return newest;
}

void TombstoneSet::Search(size_t first, size_t last, Slice key, uint64_t snapshot,
                          uint64_t* newest) const {
  if (first == last) return;
  const size_t middle = first + (last - first) / 2;
  const Node& node = nodes_[middle];
  if (node.end_max <= key) return;
  Search(first, middle, key, snapshot, newest);
  const RangeTombstone& tombstone = *node.tombstone;
  if (tombstone.begin > key) return;  // and so do all to the right
  if (key < tombstone.end && tombstone.lsn <= snapshot) *newest = std::max(*newest, tombstone.lsn);
  Search(middle + 1, last, key, snapshot, newest);
}

}  // namespace quire::table
