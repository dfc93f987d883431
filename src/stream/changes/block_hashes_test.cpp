#include "stream/changes/block_hashes.h"

#include <gtest/gtest.h>

#include <string>

namespace quire::stream::block_hashes_test {
namespace {

uint64_t Blocks(const std::string& bytes) {
  return (bytes.size() + kBlockBytes - 1) / kBlockBytes;
}

TEST(BlockHashes, ReportEveryBlockWhoseHashIsNotKept) {
  const std::string bytes(100 * kBlockBytes + 1, 'a');
  BlockHashes hashes(bytes.data(), bytes.size());
  BlockSet changed(Blocks(bytes));
  EXPECT_EQ(hashes.Update({7, 70}, &changed), 0u);
  EXPECT_EQ(changed.count(), 70u);
  EXPECT_EQ(hashes.KeptIn({0, 101}), 70u);
  changed.Clear();
  hashes.Update({0, 101}, &changed);
  EXPECT_EQ(changed.count(), 31u);
  EXPECT_EQ(changed.CountIn({7, 70}), 0u);
  hashes.Forget({50, 3});
  changed.Clear();
  EXPECT_EQ(hashes.Update({0, 101}, &changed), 0u);
  EXPECT_EQ(changed.CountIn({50, 3}), 3u);
  EXPECT_EQ(changed.count(), 3u);
}

TEST(BlockHashes, ReportTheBlockOfEachChangedByte) {
  for (const size_t size : {size_t{1}, size_t{255}, size_t{256}, size_t{257}, size_t{20000}}) {
    std::string bytes(size, 'a');
    BlockHashes hashes(bytes.data(), bytes.size());
    BlockSet changed(Blocks(bytes));
    hashes.KeepMissing({0, Blocks(bytes)});
    for (size_t at = 0; at<size; at += size> 1000 ? 97 : 1) {
      bytes[at] ^= 1;
      EXPECT_EQ(hashes.FirstDifference(), at / kBlockBytes);
      changed.Clear();
      EXPECT_EQ(hashes.Update({0, Blocks(bytes)}, &changed), 1u);
      ASSERT_EQ(changed.count(), 1u) << "byte " << at << " of " << size;
      EXPECT_EQ(changed.CountIn({at / kBlockBytes, 1}), 1u);
      EXPECT_EQ(hashes.FirstDifference(), hashes.blocks());
    }
  }
}

TEST(BlockHashes, KeepingWhatIsMissingLeavesWhatIsKept) {
  std::string bytes(200 * kBlockBytes, 'a');
  BlockHashes hashes(bytes.data(), bytes.size());
  BlockSet changed(Blocks(bytes));
  hashes.Update({60, 10}, &changed);
  bytes[65 * kBlockBytes] = 'b';
  bytes[90 * kBlockBytes] = 'b';
  hashes.KeepMissing({0, 200});
  EXPECT_EQ(hashes.KeptIn({0, 200}), 200u);
  EXPECT_EQ(hashes.FirstDifference(), 65u);
  hashes.Clear();
  EXPECT_EQ(hashes.FirstDifference(), hashes.blocks());
}

}  // namespace
}  // namespace quire::stream::block_hashes_test
