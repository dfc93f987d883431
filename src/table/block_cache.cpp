#include "table/block_cache.h"

#include <new>
#include <utility>

#include "base/epoch.h"
#include "table/table.h"

namespace quire::table {
namespace {

constexpr size_t kCacheLineBytes = 64;
// Evicted memory that may wait for readers to leave before somebody looks whether they have.
constexpr uint64_t kRetiredBytesMax = 1 << 20;

}  // namespace

CachedBlock* CachedBlock::New(size_t size) {
  if (size > SIZE_MAX / 2) return nullptr;
  void* const memory =
      ::operator new (sizeof(CachedBlock) + size, std::align_val_t{kCacheLineBytes}, std::nothrow);
  return memory == nullptr ? nullptr : ::new (memory) CachedBlock(size);
}

void CachedBlock::DropReference() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  this->~CachedBlock();
  ::operator delete (this, std::align_val_t{kCacheLineBytes});
}

CachedBlock* BlockCache::Keep(CacheSlot* slot, CachedBlock* block) {
  block->next_ = nullptr;
  if (block->charge_ > capacity_bytes_) {
    Retire(block);
    return block;
  }
  block->slot_ = slot;
  CachedBlock* present = nullptr;
  if (!slot->compare_exchange_strong(present, block, std::memory_order_acq_rel)) {
    block->DropReference();  // nobody has seen it
    return present;
  }
  CachedBlock* evicted = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // In this order: the newcomer is no candidate, however much the others are in use.
    evicted = EvictLocked(block->charge_);
    InsertLocked(block);
  }
  Retire(evicted);
  return block;
}

void BlockCache::Drop(std::span<CacheSlot> slots) {
  CachedBlock* chain = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (CacheSlot& slot : slots) {
      CachedBlock* const block = slot.load(std::memory_order_acquire);
      if (block == nullptr) continue;
      RemoveLocked(block);
      block->next_ = std::exchange(chain, block);
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
  statistics.charged_bytes = charged_bytes_.load(std::memory_order_relaxed);
  statistics.capacity_bytes = capacity_bytes_;
  return statistics;
}

// Behind the hand: the last to be asked.
void BlockCache::InsertLocked(CachedBlock* block) {
  if (hand_ == nullptr) {
    block->next_ = block->previous_ = block;
    hand_ = block;
  } else {
    block->next_ = hand_;
    block->previous_ = hand_->previous_;
    block->previous_->next_ = block;
    hand_->previous_ = block;
  }
  ++ring_count_;
  charged_bytes_.store(charged_bytes_.load(std::memory_order_relaxed) + block->charge_,
                       std::memory_order_relaxed);
}

void BlockCache::RemoveLocked(CachedBlock* block) {
  if (hand_ == block) hand_ = block->next_;
  if (hand_ == block) hand_ = nullptr;
  block->previous_->next_ = block->next_;
  block->next_->previous_ = block->previous_;
  --ring_count_;
  charged_bytes_.store(charged_bytes_.load(std::memory_order_relaxed) - block->charge_,
                       std::memory_order_relaxed);
  block->slot_->store(nullptr, std::memory_order_release);
}

// Those that must go for `room` bytes to fit, as a chain. At most the capacity is asked for.
CachedBlock* BlockCache::EvictLocked(uint64_t room) {
  CachedBlock* chain = nullptr;
  // After one full turn even blocks that readers touch all the time must go: the bound comes first.
  uint64_t second_chances = ring_count_;
  while (charged_bytes_.load(std::memory_order_relaxed) > capacity_bytes_ - room) {
    CachedBlock* const block = hand_;
    if (second_chances != 0 && block->touched_.load(std::memory_order_relaxed)) {
      block->touched_.store(false, std::memory_order_relaxed);
      --second_chances;
      hand_ = block->next_;
      continue;
    }
    RemoveLocked(block);
    block->next_ = std::exchange(chain, block);
    evictions_.fetch_add(1, std::memory_order_relaxed);
  }
  return chain;
}

// Gives the cache's references back once no reader can still be looking.
void BlockCache::Retire(CachedBlock* chain) {
  if (chain == nullptr) return;
  uint64_t bytes = 0;
  for (CachedBlock* block = chain; block != nullptr; block = block->next_) bytes += block->charge_;
  base::EpochRetire([chain] {
    for (CachedBlock* block = chain; block != nullptr;) {
      CachedBlock* const next = block->next_;
      block->DropReference();
      block = next;
    }
  });
  if (retired_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes > kRetiredBytesMax) {
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
