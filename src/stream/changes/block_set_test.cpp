#include "stream/changes/block_set.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/core/random.h"

namespace quire::stream::block_set_test {
namespace {

std::set<uint64_t> Members(const BlockSet& set) {
  std::set<uint64_t> members;
  uint64_t end_before = 0;
  bool first = true;
  for (const BlockRun& run : set.Runs()) {
    EXPECT_GT(run.count, 0u);
    EXPECT_TRUE(first || run.first > end_before) << "runs touch at " << run.first;
    for (uint64_t i = 0; i < run.count; ++i) members.insert(run.first + i);
    end_before = run.first + run.count;
    first = false;
  }
  return members;
}

TEST(BlockSet, IsEmptyAtFirstAndAfterClear) {
  BlockSet set(1000);
  EXPECT_EQ(set.Runs().size(), 0u);
  EXPECT_EQ(set.CountIn({0, 1000}), 0u);
  set.Remove({0, 1000});
  set.Add({3, 500});
  set.Clear();
  EXPECT_EQ(set.count(), 0u);
  EXPECT_EQ(set.Runs().size(), 0u);
  set.Add({999, 1});
  EXPECT_EQ(Members(set), std::set<uint64_t>{999});
}

TEST(BlockSet, JoinsRunsAcrossWords) {
  BlockSet set(256);
  set.Add({0, 256});
  ASSERT_EQ(set.Runs().size(), 1u);
  EXPECT_EQ(set.Runs()[0].count, 256u);
  set.Remove({64, 1});
  ASSERT_EQ(set.Runs().size(), 2u);
  EXPECT_EQ(set.Runs()[0].count, 64u);
  EXPECT_EQ(set.Runs()[1].first, 65u);
}

TEST(BlockSet, DoesWhatASetOfNumbersDoes) {
  base::Random random(7);
  for (const uint64_t blocks : {1, 63, 64, 65, 129, 1000}) {
    BlockSet set(blocks);
    std::set<uint64_t> model;
    for (int step = 0; step < 2000; ++step) {
      const uint64_t first = random.Below(blocks);
      const BlockRun run = {first, 1 + random.Below(std::min<uint64_t>(blocks - first, 90))};
      const bool add = random.OneIn(2);
      for (uint64_t i = run.first; i < run.first + run.count; ++i) {
        if (add) {
          model.insert(i);
        } else {
          model.erase(i);
        }
      }
      if (add) {
        set.Add(run);
      } else {
        set.Remove(run);
      }
      ASSERT_EQ(set.count(), model.size());
      ASSERT_EQ(Members(set), model) << "seed 7, " << blocks << " blocks, step " << step;
      const auto from = model.lower_bound(run.first);
      const auto to = model.lower_bound(run.first + run.count);
      ASSERT_EQ(set.CountIn(run), static_cast<uint64_t>(std::distance(from, to)));
    }
  }
}

}  // namespace
}  // namespace quire::stream::block_set_test
