#include "table/block_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "base/core/random.h"
#include "base/threads/epoch.h"
#include "table/table.h"

namespace quire::table::block_cache_test {
namespace {

constexpr size_t kBlockBytes = 1000;
const uint64_t kCharge = CachedBlock::Charge(kBlockBytes);

// Adds a block that knows its slot's number, as a miss does.
CachedBlock* Add(BlockCache* cache, CacheSlot* slot, char number, size_t size = kBlockBytes) {
  CachedBlock* const block = cache->New(size);
  std::memset(block->data(), number, size);
  return cache->Keep(slot, block);
}

TEST(BlockCache, KeepsWhatFits) {
  BlockCache cache(3 * kCharge);
  std::array<CacheSlot, 3> slots{};
  const base::EpochGuard guard;
  for (size_t i = 0; i < 3; ++i) Add(&cache, &slots[i], static_cast<char>(i));
  for (size_t i = 0; i < 3; ++i) {
    const CachedBlock* const block = BlockCache::Find(slots[i]);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(block->slice(), std::string(kBlockBytes, static_cast<char>(i)));
  }
  EXPECT_EQ(cache.Statistics().charged_bytes, 3 * kCharge);
  EXPECT_EQ(cache.Statistics().evictions, 0u);
  cache.Drop(slots);
  EXPECT_EQ(cache.Statistics().charged_bytes, 0u);
  EXPECT_EQ(BlockCache::Find(slots[0]), nullptr);
}

TEST(BlockCache, EvictsUntouchedBlocksFirst) {
  BlockCache cache(3 * kCharge);
  std::array<CacheSlot, 4> slots{};
  const base::EpochGuard guard;
  for (size_t i = 0; i < 3; ++i) Add(&cache, &slots[i], static_cast<char>(i));
  BlockCache::Find(slots[0]);
  BlockCache::Find(slots[2]);
  Add(&cache, &slots[3], 3);
  EXPECT_NE(slots[0].load(), nullptr);
  EXPECT_EQ(slots[1].load(), nullptr);
  EXPECT_NE(slots[2].load(), nullptr);
  EXPECT_NE(slots[3].load(), nullptr);
  EXPECT_EQ(cache.Statistics().evictions, 1u);
  cache.Drop(slots);
}

TEST(BlockCache, ABlockThatWasFoundStaysReadableUntilTheGuardLeaves) {
  BlockCache cache(kCharge);
  std::array<CacheSlot, 2> slots{};
  const base::EpochGuard guard;
  const CachedBlock* const first = Add(&cache, &slots[0], 'a');
  Add(&cache, &slots[1], 'b');
  ASSERT_EQ(slots[0].load(), nullptr) << "evicted";
  base::EpochCollect();
  EXPECT_EQ(first->slice(), std::string(kBlockBytes, 'a'));
  cache.Drop(slots);
}

TEST(BlockCache, APinnedBlockStaysReadableAfterGuardAndCacheAreGone) {
  BlockPin pin;
  {
    BlockCache cache(10 * kCharge);
    std::array<CacheSlot, 1> slots{};
    {
      const base::EpochGuard guard;
      pin = BlockPin(Add(&cache, &slots[0], 'p'));
    }
    cache.Drop(slots);
  }
  base::EpochSynchronize();
  EXPECT_EQ(pin.get()->slice(), std::string(kBlockBytes, 'p'));
}

TEST(BlockCache, ABlockLargerThanTheCacheIsServedButNotKept) {
  BlockCache cache(kCharge);
  std::array<CacheSlot, 2> slots{};
  BlockPin pin;
  {
    const base::EpochGuard guard;
    Add(&cache, &slots[0], 'a');
    CachedBlock* const large = Add(&cache, &slots[1], 'b', 2 * kBlockBytes);
    EXPECT_EQ(large->slice(), std::string(2 * kBlockBytes, 'b'));
    pin = BlockPin(large);
  }
  EXPECT_NE(slots[0].load(), nullptr) << "not evicted for it";
  EXPECT_EQ(slots[1].load(), nullptr);
  EXPECT_EQ(cache.Statistics().charged_bytes, kCharge);
  base::EpochSynchronize();
  EXPECT_EQ(pin.get()->slice(), std::string(2 * kBlockBytes, 'b'));
  cache.Drop(slots);
}

TEST(BlockCache, ACacheOfNoBytesKeepsNothing) {
  BlockCache cache(0);
  std::array<CacheSlot, 1> slots{};
  const base::EpochGuard guard;
  EXPECT_EQ(Add(&cache, &slots[0], 'a')->data()[0], 'a');
  EXPECT_EQ(slots[0].load(), nullptr);
}

TEST(BlockCache, TheSecondToAddABlockUsesTheFirst) {
  BlockCache cache(10 * kCharge);
  std::array<CacheSlot, 1> slots{};
  const base::EpochGuard guard;
  CachedBlock* const first = Add(&cache, &slots[0], 'a');
  EXPECT_EQ(Add(&cache, &slots[0], 'b'), first);
  EXPECT_EQ(first->data()[0], 'a');
  EXPECT_EQ(cache.Statistics().charged_bytes, kCharge);
  cache.Drop(slots);
}

TEST(BlockCache, BlocksThatAreTouchedAllTheTimeMakeRoomToo) {
  BlockCache cache(4 * kCharge);
  std::array<CacheSlot, 20> slots{};
  for (size_t i = 0; i < slots.size(); ++i) {
    const base::EpochGuard guard;
    Add(&cache, &slots[i], static_cast<char>(i));
    for (const CacheSlot& slot : slots) BlockCache::Find(slot);
    EXPECT_LE(cache.Statistics().charged_bytes, 4 * kCharge);
    EXPECT_NE(slots[i].load(), nullptr);
  }
  EXPECT_EQ(cache.Statistics().evictions, slots.size() - 4);
  cache.Drop(slots);
}

// Readers that miss, evict each other's blocks, pin some; a slot's bytes are always its own.
void ReadAndEvict(BlockCache* cache, size_t slot_count, size_t block_bytes) {
  constexpr size_t kThreads = 4;
  const CacheStatistics before = cache->Statistics();
  const std::unique_ptr<CacheSlot[]> slots(new CacheSlot[slot_count]());
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      base::Random random(thread);
      std::array<BlockPin, 4> pins;
      std::array<char, 4> pinned{};
      for (int i = 0; i < 5000; ++i) {
        const base::EpochGuard guard;
        const size_t at = random.Below(slot_count);
        CachedBlock* block = BlockCache::Find(slots[at]);
        if (block == nullptr) block = Add(cache, &slots[at], static_cast<char>(at), block_bytes);
        if (block->data()[random.Below(block_bytes)] != static_cast<char>(at)) ++wrong;
        if (random.OneIn(8)) {
          const size_t hold = random.Below(pins.size());
          pins[hold] = BlockPin(block);
          pinned[hold] = static_cast<char>(at);
        }
        const size_t held = random.Below(pins.size());
        if (pins[held].get() != nullptr && pins[held].get()->data()[0] != pinned[held]) ++wrong;
        if (cache->Statistics().charged_bytes > before.capacity_bytes) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(cache->Statistics().evictions, 1000u);
  cache->Drop({slots.get(), slot_count});
  base::EpochSynchronize();
}

TEST(BlockCache, ReadersThatEvictEachOthersBlocksReadTheRightBytes) {
  BlockCache cache(16 * kCharge);
  ReadAndEvict(&cache, 64, kBlockBytes);
  EXPECT_EQ(cache.Statistics().charged_bytes, 0u) << "too small to keep memory";
}

TEST(BlockCache, ReadersUseTheMemoryOfEachOthersBlocksAndReadTheRightBytes) {
  constexpr size_t kCapacity = 4 << 20;
  BlockCache cache(kCapacity);
  ReadAndEvict(&cache, 1024, 8000);
  EXPECT_LE(cache.Statistics().charged_bytes, kCapacity / 64) << "memory for blocks to come";
  EXPECT_GE(cache.Statistics().charged_bytes, kCapacity / 64 - CachedBlock::Charge(8000));
}

TEST(BlockCache, ANewBlockTakesTheMemoryOfOneThatLeft) {
  BlockCache cache(8 << 20);
  std::array<CacheSlot, 2> slots{};
  const CachedBlock* first = nullptr;
  {
    const base::EpochGuard guard;
    first = Add(&cache, &slots[0], 'a');
    cache.Drop(slots);
    EXPECT_EQ(cache.Statistics().charged_bytes, 0u) << "readers may still look at it";
  }
  base::EpochSynchronize();
  EXPECT_EQ(cache.Statistics().charged_bytes, kCharge) << "kept";
  CachedBlock* const second = cache.New(kBlockBytes - 10);
  EXPECT_EQ(second, first);
  EXPECT_EQ(second->size(), kBlockBytes - 10);
  EXPECT_EQ(cache.Statistics().charged_bytes, 0u);
  second->DropReference();
}

TEST(BlockCache, APinnedBlocksMemoryIsNoOtherBlocks) {
  BlockCache cache(8 << 20);
  std::array<CacheSlot, 1> slots{};
  BlockPin pin;
  {
    const base::EpochGuard guard;
    pin = BlockPin(Add(&cache, &slots[0], 'p'));
    cache.Drop(slots);
  }
  base::EpochSynchronize();
  EXPECT_EQ(cache.Statistics().charged_bytes, 0u);
  EXPECT_EQ(pin.get()->slice(), std::string(kBlockBytes, 'p'));
}

TEST(BlockCache, CountsFromManyThreadsAddUp) {
  BlockCache cache(1);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) cache.CountHit();
      cache.CountMiss();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.Statistics().hits, 4000u);
  EXPECT_EQ(cache.Statistics().misses, 4u);
}

TEST(BlockPool, GivesPiecesOfLikeSizeOnly) {
  BlockPool pool(1 << 20);
  const size_t bytes = BlockPool::PieceBytes(3000);
  ASSERT_GE(bytes, 3000u);
  void* const piece = BlockPool::Allocate(bytes);
  pool.Give(piece, bytes);
  EXPECT_EQ(pool.bytes(), bytes);
  size_t wanted = BlockPool::PieceBytes(bytes + 1);
  EXPECT_EQ(pool.Take(&wanted), nullptr) << "too small";
  wanted = BlockPool::PieceBytes(1500);
  EXPECT_EQ(pool.Take(&wanted), nullptr) << "would waste half of it";
  wanted = BlockPool::PieceBytes(2700);
  ASSERT_LT(wanted, bytes);
  EXPECT_EQ(pool.Take(&wanted), piece);
  EXPECT_EQ(wanted, bytes) << "what the piece has";
  EXPECT_EQ(pool.bytes(), 0u);
  EXPECT_EQ(pool.Take(&wanted), nullptr) << "taken";
  BlockPool::Free(piece);
}

TEST(BlockPool, KeepsNoMoreThanItsBound) {
  const size_t bytes = BlockPool::PieceBytes(1000);
  BlockPool pool(3 * bytes + 1);
  for (int i = 0; i < 5; ++i) pool.Give(BlockPool::Allocate(bytes), bytes);
  EXPECT_EQ(pool.bytes(), 3 * bytes);
}

TEST(BlockPool, KeepsNoLargePieces) {
  BlockPool pool(1 << 20);
  size_t bytes = BlockPool::PieceBytes(100'000);
  EXPECT_EQ(bytes, 100'000u) << "which waste nothing";
  pool.Give(BlockPool::Allocate(bytes), bytes);
  EXPECT_EQ(pool.bytes(), 0u);
  EXPECT_EQ(pool.Take(&bytes), nullptr);
}

struct RingBlock {
  uint64_t ring_place_ = 0;
  CacheSlot* slot_ = nullptr;
};

TEST(BlockRing, KeepsTheOrderWhateverIsTakenOut) {
  base::Random random(1);
  std::array<RingBlock, 300> blocks;
  BlockRing<RingBlock> ring;
  std::deque<RingBlock*> expected;
  std::vector<RingBlock*> outside;
  for (RingBlock& block : blocks) outside.push_back(&block);
  for (int i = 0; i < 20'000; ++i) {
    // Phases in which it grows, and shrinks.
    const bool push = random.Below(10) < (i / 1000 % 2 == 0 ? 7u : 3u);
    if (push && !outside.empty()) {
      ring.PushBack(outside.back());
      expected.push_back(outside.back());
      outside.pop_back();
    } else if (!push && !expected.empty()) {
      const size_t at = random.OneIn(2) ? 0 : random.Below(expected.size());
      RingBlock* const block = expected[at];
      expected.erase(expected.begin() + static_cast<ptrdiff_t>(at));
      if (at == 0) {
        ASSERT_EQ(ring.PopFront(), block);
      } else {
        ring.Remove(block);
      }
      outside.push_back(block);
    }
    ASSERT_EQ(ring.count(), expected.size());
  }
}

}  // namespace
}  // namespace quire::table::block_cache_test
