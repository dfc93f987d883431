#include "table/block_cache.h"

#include <algorithm>
#include <list>
#include <new>
#include <utility>

#include "base/threads/epoch.h"
#include "table/table.h"

namespace quire::table {
namespace {

// Evicted blocks are retired together: to wait for readers costs a lock, a piece of memory and, at
// each check whether they have left, a fence of all processors.
constexpr uint64_t kEvictedCountMax = 64;
constexpr uint64_t kEvictedBytesMax = 256 << 10;
// Evicted memory that may wait for readers before a check whether they have left.
constexpr uint64_t kRetiredBytesMax = 128 << 10;

// As much as comes back from readers at a time, if that is little of the cache.
constexpr uint64_t kPoolShare = 64;
constexpr uint64_t kPoolBytesMin = 64 << 10;
constexpr uint64_t kPoolBytesMax = 1 << 20;

uint64_t PoolBytes(uint64_t capacity_bytes) {
  const uint64_t share = std::min(capacity_bytes / kPoolShare, kPoolBytesMax);
  return share < kPoolBytesMin ? 0 : share;
}

}  // namespace

CachedBlock* CachedBlock::New(size_t size) {
  if (size > SIZE_MAX / 2) return nullptr;
  const uint64_t charge = Charge(size);
  void* const memory = BlockPool::Allocate(charge);
  return memory == nullptr ? nullptr : ::new (memory) CachedBlock(size, charge);
}

void CachedBlock::DropReference() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  this->~CachedBlock();
  BlockPool::Free(this);
}

// Drops the cache's reference to each block; memory of blocks without a pin goes to the pool.
void CachedBlock::DropChain(CachedBlock* chain, BlockPool* pool) {
  while (chain != nullptr) {
    CachedBlock* const block = std::exchange(chain, chain->next_);
    if (chain != nullptr) __builtin_prefetch(chain->next_, 1);
    if (block->references_.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    const uint64_t charge = block->charge_;
    block->~CachedBlock();
    pool->Give(block, charge);
  }
}

BlockCache::BlockCache(uint64_t capacity_bytes)
    : capacity_bytes_(capacity_bytes),
      pool_(std::make_shared<BlockPool>(PoolBytes(capacity_bytes))),
      blocks_bytes_max_(capacity_bytes - pool_->bytes_max()) {}

BlockCache::~BlockCache() {
  Retire(std::exchange(evicted_, Chain()));
  if (evicted_.first == nullptr || !base::EpochMaySynchronize()) return;
  // There is no memory to retire the blocks: waits for readers that may still be looking.
  base::EpochSynchronize();
  CachedBlock::DropChain(evicted_.first, pool_.get());
}

CachedBlock* BlockCache::New(size_t size) {
  if (size > SIZE_MAX / 2) return nullptr;
  size_t charge = CachedBlock::Charge(size);
  void* const memory = pool_->Take(&charge);
  return memory == nullptr ? CachedBlock::New(size) : ::new (memory) CachedBlock(size, charge);
}

CachedBlock* BlockCache::Keep(CacheSlot* slot, CachedBlock* block) {
  if (block->charge_ > blocks_bytes_max_) {
    Chain chain;
    chain.Add(block);
    Retire(chain);
    return block;
  }
  block->slot_ = slot;
  CachedBlock* present = nullptr;
  if (!slot->compare_exchange_strong(present, block, std::memory_order_acq_rel)) {
    block->DropReference();  // no other thread has seen it
    return present;
  }
  Chain evicted;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // In this order: the new block is no candidate, however much the others are in use.
    EvictLocked(block->charge_);
    evicted = TakeEvictedLocked();
    if (ring_.PushBack(block)) {
      AddCharge(block->charge_);
    } else {  // no memory to keep it: it is served, and goes
      slot->store(nullptr, std::memory_order_release);
      evicted.Add(block);
    }
  }
  Retire(evicted);
  return block;
}

void BlockCache::Drop(std::span<CacheSlot> slots) {
  Chain chain;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (CacheSlot& slot : slots) {
      CachedBlock* const block = slot.load(std::memory_order_acquire);
      if (block == nullptr) continue;
      ring_.Remove(block);
      SubtractCharge(block->charge_);
      slot.store(nullptr, std::memory_order_release);
      chain.Add(block);
    }
  }
  Retire(chain);
}

CacheStatistics BlockCache::Statistics() const {
  CacheStatistics statistics;
  for (const Counter& counter : counters_) {
    statistics.hits += counter.hits.load(std::memory_order_relaxed);
    statistics.misses += counter.misses.load(std::memory_order_relaxed);
  }
  statistics.evictions = evictions_.load(std::memory_order_relaxed);
  statistics.charged_bytes = charged_bytes_.load(std::memory_order_relaxed) + pool_->bytes();
  statistics.capacity_bytes = capacity_bytes_;
  return statistics;
}

void BlockCache::Chain::Add(CachedBlock* block) {
  block->next_ = std::exchange(first, block);
  ++count;
  bytes += block->charge_;
}

void BlockCache::Chain::Take(const Chain& others) {
  for (CachedBlock* block = others.first; block != nullptr;) {
    CachedBlock* const next = block->next_;
    Add(block);
    block = next;
  }
}

// Written under the lock: a sum of two steps loses nothing.
void BlockCache::AddCharge(uint64_t bytes) {
  charged_bytes_.store(charged_bytes_.load(std::memory_order_relaxed) + bytes,
                       std::memory_order_relaxed);
}

void BlockCache::SubtractCharge(uint64_t bytes) {
  charged_bytes_.store(charged_bytes_.load(std::memory_order_relaxed) - bytes,
                       std::memory_order_relaxed);
}

// Evicts blocks until `room` bytes fit; `room` is at most blocks_bytes_max_.
void BlockCache::EvictLocked(uint64_t room) {
  // After one full turn even blocks that readers touch all the time must go: the bound comes first.
  uint64_t second_chances = ring_.count();
  uint64_t count = 0;
  while (charged_bytes_.load(std::memory_order_relaxed) > blocks_bytes_max_ - room) {
    CachedBlock* const block = ring_.PopFront();
    if (second_chances != 0 && block->touched_.load(std::memory_order_relaxed)) {
      block->touched_.store(false, std::memory_order_relaxed);
      --second_chances;
      static_cast<void>(ring_.PushBack(block));  // it has the place that it just left
      continue;
    }
    SubtractCharge(block->charge_);
    block->slot_->store(nullptr, std::memory_order_release);
    evicted_.Add(block);
    ++count;
  }
  if (count != 0)
    evictions_.store(evictions_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
}

// Returns the evicted blocks if they are worth retiring; otherwise nothing.
BlockCache::Chain BlockCache::TakeEvictedLocked() {
  if (evicted_.count < kEvictedCountMax && evicted_.bytes < kEvictedBytesMax) return Chain();
  return std::exchange(evicted_, Chain());
}

// Releases the cache's references when no reader can still be looking. If there is no memory for
// this, the blocks are retired with the next ones.
void BlockCache::Retire(const Chain& chain) {
  if (chain.first == nullptr) return;
  std::list<base::EpochRetired> retired;
  try {
    retired = base::EpochPrepare(
        [first = chain.first, pool = pool_] { CachedBlock::DropChain(first, pool.get()); });
  } catch (const std::bad_alloc&) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return evicted_.Take(chain);
  }
  base::EpochRetire(std::move(retired));
  if (retired_bytes_.fetch_add(chain.bytes, std::memory_order_relaxed) + chain.bytes >
      kRetiredBytesMax) {
    retired_bytes_.store(0, std::memory_order_relaxed);
    base::EpochCollect();
  }
}

std::shared_ptr<BlockCache> NewBlockCache(uint64_t capacity_bytes) {
  return std::make_shared<BlockCache>(capacity_bytes);
}

CacheStatistics Statistics(const BlockCache& cache) {
  return cache.Statistics();
}

}  // namespace quire::table
