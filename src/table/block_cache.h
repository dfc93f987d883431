/// One bounded memory for data blocks, indexes and filters of all open tables. A hit is one load
/// and no lock.
///
/// Layer      table
/// Source     PapyrusKV, SC17, section 2.6 ("loads the SSIndex in memory"); clock eviction
/// Threads    any; Find, Keep and what they return: inside a base::EpochGuard
/// Invariants charged bytes, with those of memory kept for future blocks, <= capacity; a block
///            found inside an EpochGuard stays readable until the guard leaves, and as long as a
///            BlockPin holds it; a block is in both its slot and the clock's ring, or (for the
///            instant of Keep and after eviction) in neither.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "quire/slice.h"
#include "table/block_pool.h"
#include "table/block_ring.h"

namespace quire::table {

class BlockCache;
class CachedBlock;

/// The place of a block in memory: one per block of an open table.
using CacheSlot = std::atomic<CachedBlock*>;

struct CacheStatistics {
  uint64_t hits = 0;    ///< lookups of data blocks that found them in memory
  uint64_t misses = 0;  ///< blocks, indexes and filters that had to be read
  uint64_t evictions = 0;
  uint64_t charged_bytes = 0;
  uint64_t capacity_bytes = 0;
};

/// The bytes of a block in memory, behind the fields that the clock needs. Freed, or kept for
/// another block, when the last reference goes: the cache's (through base::EpochRetire), or a
/// BlockPin's.
class CachedBlock {
 public:
  /// Makes a block of `size` bytes with one reference, the caller's. Null: no memory.
  static CachedBlock* New(size_t size);
  /// Returns the charge for a block of `size` bytes: all of its memory.
  static uint64_t Charge(size_t size) { return BlockPool::PieceBytes(sizeof(CachedBlock) + size); }
  char* data() { return reinterpret_cast<char*>(this + 1); }
  const char* data() const { return reinterpret_cast<const char*>(this + 1); }
  size_t size() const { return size_; }
  Slice slice() const { return Slice(data(), size()); }
  /// Limits the contents to the first `size` bytes of the allocation; the rest is slack.
  void Shrink(size_t size) { size_ = size; }
  /// Marks the block as in use for the clock.
  void Touch() {
    // Store only a change: readers on other cores keep the cache line.
    if (!touched_.load(std::memory_order_relaxed)) touched_.store(true, std::memory_order_relaxed);
  }
  void AddReference() { references_.fetch_add(1, std::memory_order_relaxed); }
  void DropReference();

 private:
  friend class BlockCache;
  friend class BlockRing<CachedBlock>;
  CachedBlock(size_t size, uint64_t charge) : charge_(charge), size_(size) {}
  static void DropChain(CachedBlock* chain, BlockPool* pool);

  CachedBlock* next_ = nullptr;  ///< in a chain of blocks that leave the cache
  uint64_t ring_place_ = 0;
  CacheSlot* slot_ = nullptr;
  uint64_t charge_;
  size_t size_;
  std::atomic<uint32_t> references_{1};
  std::atomic<bool> touched_{false};
};
static_assert(sizeof(CachedBlock) == 48,
              "so that the head of a data block shares its first cache line");

/// Holds a block beyond the EpochGuard under which it was found.
class BlockPin {
 public:
  BlockPin() = default;
  explicit BlockPin(CachedBlock* block) : block_(block) { block_->AddReference(); }
  /// Takes over the caller's reference. `block` may be null.
  static BlockPin Adopt(CachedBlock* block) {
    BlockPin pin;
    pin.block_ = block;
    return pin;
  }
  BlockPin(BlockPin&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  BlockPin& operator=(BlockPin&& other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~BlockPin() { Release(); }
  void Release() {
    if (block_ != nullptr) std::exchange(block_, nullptr)->DropReference();
  }
  CachedBlock* get() const { return block_; }

 private:
  CachedBlock* block_ = nullptr;
};

class BlockCache {
 public:
  explicit BlockCache(uint64_t capacity_bytes);
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// Makes a block like CachedBlock::New, but from memory of evicted blocks if there is some. For
  /// blocks that go to Keep.
  CachedBlock* New(size_t size);

  /// Returns the block in `slot`, marked as used; null: none.
  static CachedBlock* Find(const CacheSlot& slot) {
    CachedBlock* const block = slot.load(std::memory_order_acquire);
    if (block != nullptr) block->Touch();
    return block;
  }
  /// Puts `block` into `slot`, with the caller's reference, and evicts others until the capacity
  /// suffices. Returns the block to use: this one, or the one that another thread inserted first. A
  /// block larger than the cache is not kept: it is freed when the guard leaves.
  CachedBlock* Keep(CacheSlot* slot, CachedBlock* block);
  /// Removes the blocks in `slots`, whose table is being destroyed.
  void Drop(std::span<CacheSlot> slots);

  void CountHit() { counters_[CounterIndex()].hits.fetch_add(1, std::memory_order_relaxed); }
  void CountMiss() { counters_[CounterIndex()].misses.fetch_add(1, std::memory_order_relaxed); }
  CacheStatistics Statistics() const;

 private:
  // Threads count in places of their own, so that hits share no cache line.
  struct alignas(128) Counter {
    std::atomic<uint64_t> hits{0};
    std::atomic<uint64_t> misses{0};
  };
  static constexpr size_t kCounterCount = 32;
  static size_t CounterIndex() {
    static std::atomic<size_t> next{0};
    thread_local const size_t index = next.fetch_add(1, std::memory_order_relaxed) % kCounterCount;
    return index;
  }

  /// Blocks that leave the cache, linked one after another.
  struct Chain {
    CachedBlock* first = nullptr;
    uint64_t count = 0;
    uint64_t bytes = 0;
    void Add(CachedBlock* block);
    void Take(const Chain& others);
  };

  void AddCharge(uint64_t bytes);
  void SubtractCharge(uint64_t bytes);
  void EvictLocked(uint64_t room);
  Chain TakeEvictedLocked();
  void Retire(const Chain& chain);

  const uint64_t capacity_bytes_;
  const std::shared_ptr<BlockPool> pool_;  ///< shared with blocks that wait for readers to leave
  const uint64_t blocks_bytes_max_;        ///< the capacity without the pool's part
  std::array<Counter, kCounterCount> counters_;
  std::atomic<uint64_t> evictions_{0};      ///< written under mutex_
  std::atomic<uint64_t> charged_bytes_{0};  ///< of blocks; written under mutex_
  std::atomic<uint64_t> retired_bytes_{0};  ///< since the last collection
  std::mutex mutex_;
  BlockRing<CachedBlock> ring_;  ///< guarded by mutex_
  Chain evicted_;                ///< not yet retired; guarded by mutex_
};

}  // namespace quire::table
