/// The order in which the block cache's clock visits blocks: a queue of pointers in an array, so
/// that removing a block touches no other block, and the next blocks are known ahead.
///
/// Layer      table
/// Threads    one at a time (the block cache's lock)
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace quire::table {

/// `Block` has a member ring_place_, which only the ring uses, and a member slot_.
template <typename Block>
class BlockRing {
 public:
  uint64_t count() const { return count_; }

  /// Appends a block, to be visited last. Returns false if there is no memory for it; never when it
  /// replaces one that was removed.
  bool PushBack(Block* block) {
    if (tail_ - head_ == size_ && !Grow()) return false;
    block->ring_place_ = tail_;
    At(tail_++) = block;
    ++count_;
    return true;
  }

  /// Removes and returns the first block; there is one. Prefetches blocks behind it, in time for
  /// their turns.
  Block* PopFront() {
    while (At(head_) == nullptr) ++head_;
    Block* const block = std::exchange(At(head_++), nullptr);
    --count_;
    if (Block* const next = Ahead(kAhead)) __builtin_prefetch(next, 1);
    if (Block* const next = Ahead(kAhead / 2)) __builtin_prefetch(next->slot_, 1);
    return block;
  }

  /// Removes a block that is in the ring.
  void Remove(Block* block) {
    At(block->ring_place_) = nullptr;  // its place is skipped, or removed when the array grows
    --count_;
  }

 private:
  static constexpr uint64_t kAhead = 8;

  Block*& At(uint64_t place) { return places_[place & (size_ - 1)]; }
  Block* Ahead(uint64_t distance) {
    return distance < tail_ - head_ ? At(head_ + distance) : nullptr;
  }

  // Closes the gaps, in an array that has room for as many blocks again: it is larger than before,
  // or half of the old array was gaps.
  bool Grow() {
    const uint64_t size = std::bit_ceil(2 * (count_ + 1));
    std::unique_ptr<Block*[]> places(new (std::nothrow) Block*[size]());
    if (places == nullptr) return false;
    uint64_t end = 0;
    for (uint64_t place = head_; place != tail_; ++place) {
      Block* const block = At(place);
      if (block == nullptr) continue;
      block->ring_place_ = end;
      places[end++] = block;
    }
    places_ = std::move(places);
    size_ = size;
    head_ = 0;
    tail_ = end;
    return true;
  }

  std::unique_ptr<Block*[]> places_;
  uint64_t size_ = 0;  ///< a power of two
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  uint64_t count_ = 0;
};

}  // namespace quire::table
