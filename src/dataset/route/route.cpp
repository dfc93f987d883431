#include "dataset/route/route.h"

#include "base/hash/hash.h"

namespace quire::dataset {

Route::Route(uint32_t rank, uint32_t size, uint32_t grid_ranks_min)
    : rank_(rank), size_(size), width_(0) {
  if (size < grid_ranks_min) return;
  width_ = 1;
  while (uint64_t{width_} * width_ < size) ++width_;
}

uint32_t Route::PartitionOf(uint64_t hash) const {
  return static_cast<uint32_t>(base::OwnerOf(hash, static_cast<int>(size_)));
}

uint32_t Route::FirstHop(uint32_t partition) const {
  if (!grid()) return partition;
  const uint32_t hop = RowOf(rank_) * width_ + partition % width_;
  return hop < size_ ? hop : hop - width_;
}

uint16_t Route::MarkOf(uint32_t source) const {
  const uint32_t row_behind = RowOf(source) - RowOf(rank_);
  return static_cast<uint16_t>(row_behind * width_ + source % width_);
}

uint32_t Route::SourceOf(uint32_t passer, uint16_t mark) const {
  const uint32_t row = RowOf(passer) + mark / width_;
  return mark < 2 * width_ ? row * width_ + mark % width_ : size_;
}

bool Route::MayPass(uint32_t source) const {
  const uint32_t row = RowOf(source);
  return row == RowOf(rank_) || row == RowOf(rank_) + 1;
}

}  // namespace quire::dataset
