#include "dataset/route/route.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/core/random.h"
#include "dataset/route/shuffle_batcher.h"

namespace quire::dataset::route_test {
namespace {

constexpr uint32_t kNever = 1u << 24;

TEST(Route, GoesStraightBelowTheGrid) {
  const Route route(3, 8, 9);
  EXPECT_FALSE(route.grid());
  for (uint32_t partition = 0; partition < 8; ++partition) {
    EXPECT_EQ(route.FirstHop(partition), partition);
    EXPECT_EQ(route.FirstSlot(partition), partition);
  }
  EXPECT_EQ(route.first_slots(), 8u);
  EXPECT_EQ(route.second_slots(), 0u);
}

// Follows an entry of `source` over its hop to `partition`, which must find its source again.
void ExpectArrives(uint32_t size, uint32_t source, uint32_t partition) {
  const Route from(source, size, 2);
  const uint32_t hop = from.FirstHop(partition);
  ASSERT_LT(hop, size) << source << " to " << partition << " of " << size;
  ASSERT_LT(from.FirstSlot(hop), from.first_slots());
  const Route over(hop, size, 2);
  ASSERT_TRUE(over.MayPass(source)) << source << " over " << hop << " of " << size;
  ASSERT_TRUE(over.MayPassTo(partition)) << partition << " over " << hop << " of " << size;
  ASSERT_LT(over.SecondSlot(partition), over.second_slots());
  const Route to(partition, size, 2);
  ASSERT_EQ(to.SourceOf(hop, over.MarkOf(source)), source)
      << source << " over " << hop << " to " << partition << " of " << size;
}

TEST(Route, TwoHopsReachEveryPartitionAndNameTheSource) {
  for (uint32_t size = 2; size <= 40; ++size) {
    for (uint32_t source = 0; source < size; ++source) {
      for (uint32_t partition = 0; partition < size; ++partition) {
        ASSERT_NO_FATAL_FAILURE(ExpectArrives(size, source, partition));
      }
    }
  }
  base::Random random(1);
  for (int i = 0; i < 50'000; ++i) {
    const auto size = static_cast<uint32_t>(2 + random.Below(kNever - 2));
    ASSERT_NO_FATAL_FAILURE(ExpectArrives(size, static_cast<uint32_t>(random.Below(size)),
                                          static_cast<uint32_t>(random.Below(size))));
  }
}

TEST(Route, DifferentDestinationsHaveDifferentSlots) {
  for (const uint32_t size : {2u, 3u, 7u, 16u, 17u, 1000u}) {
    for (const uint32_t rank : {0u, size / 2, size - 1}) {
      const Route route(rank, size, 2);
      std::set<uint32_t> hops;
      std::set<uint32_t> slots;
      for (uint32_t partition = 0; partition < size; ++partition) {
        hops.insert(route.FirstHop(partition));
        slots.insert(route.FirstSlot(route.FirstHop(partition)));
      }
      EXPECT_EQ(hops.size(), slots.size()) << rank << " of " << size;
    }
  }
}

TEST(Route, AnUnusedMarkNamesNoRank) {
  const Route route(5, 16, 2);
  EXPECT_GE(route.SourceOf(5, 8), 16u);
  EXPECT_GE(route.SourceOf(15, 7), 16u);
  EXPECT_FALSE(route.MayPass(12));
}

// The buffers of a rank that puts keys of all partitions: no more than the 64 MiB, however
// many are put.
uint64_t BufferBytes(uint32_t size, uint32_t rank, uint32_t grid_ranks_min, uint64_t batch_bytes) {
  const Route route(rank, size, grid_ranks_min);
  ShuffleBatcher first(route.first_slots(), batch_bytes);
  ShuffleBatcher second(route.second_slots(), batch_bytes);
  base::Random random(rank + 1);
  uint64_t most = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const auto partition = static_cast<uint32_t>(random.Below(size));
    const uint32_t hop = route.FirstHop(partition);
    first.Room(route.FirstSlot(hop), hop, 8)->append(8, 'h');
    // As much is passed on as is put: by the ranks of the row, to those of this rank's column.
    if (route.grid()) {
      second.Room(route.SecondSlot(partition), partition, 10)->append(10, 'h');
      second.TakeClosed();
    }
    first.TakeClosed();
    most = std::max(most, first.buffer_bytes() + second.buffer_bytes());
  }
  return most;
}

TEST(Route, BuffersAreBoundedAtManyRanks) {
  constexpr uint64_t kBatch = 16 << 10;
  constexpr uint64_t kMiB = 1 << 20;
  for (const uint32_t rank : {0u, 2048u, 4095u}) {
    EXPECT_LE(BufferBytes(4096, rank, 1024, kBatch), 3 * kMiB) << rank;
  }
  EXPECT_GT(BufferBytes(4096, 0, kNever, kBatch), 60 * kMiB);  // what straight ones would take
  EXPECT_LE(BufferBytes(1 << 20, 5, 1024, kBatch), 64 * kMiB);
}

TEST(ShuffleBatcher, CloseWhatHasNoRoomAndTakeWhatIsLongerThanABatch) {
  ShuffleBatcher batches(2, 100);
  batches.SetHead("head");
  batches.Room(0, 7, 60)->append(60, 'a');
  EXPECT_FALSE(batches.has_closed());
  batches.Room(0, 7, 60)->append(60, 'b');
  batches.Room(1, 9, 500)->append(500, 'c');
  auto closed = batches.TakeClosed();
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_EQ(closed[0].destination, 7u);
  EXPECT_EQ(closed[0].bytes, "head" + std::string(60, 'a'));
  batches.CloseAll();
  closed = batches.TakeClosed();
  ASSERT_EQ(closed.size(), 2u);
  EXPECT_EQ(closed[0].bytes, "head" + std::string(60, 'b'));
  EXPECT_EQ(closed[1].destination, 9u);
  EXPECT_EQ(closed[1].bytes, "head" + std::string(500, 'c'));
  EXPECT_EQ(batches.buffer_bytes(), 0u);
}

}  // namespace
}  // namespace quire::dataset::route_test
