#include "filter/bloom/bloom.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/core/random.h"
#include "base/hash/hash.h"

namespace quire::filter::bloom_test {
namespace {

std::vector<uint64_t> KeyHashes(const std::string& prefix, int count) {
  std::vector<uint64_t> hashes;
  for (int i = 0; i < count; ++i) hashes.push_back(base::HashKey(prefix + std::to_string(i)));
  return hashes;
}

double FalseRate(Slice filter, const std::vector<uint64_t>& absent) {
  size_t positives = 0;
  for (const uint64_t hash : absent) positives += BloomMayContain(filter, hash) ? 1 : 0;
  return static_cast<double>(positives) / static_cast<double>(absent.size());
}

TEST(Bloom, NeverRejectsAMember) {
  for (const int bits : {1, 2, 5, 10, 11, 12, 16, 20, 33, 64}) {
    for (const int count : {1, 2, 50, 51, 52, 1000, 20000}) {
      const std::vector<uint64_t> hashes = KeyHashes("key", count);
      const std::string filter = BloomBuild(hashes, bits);
      for (const uint64_t hash : hashes) ASSERT_TRUE(BloomMayContain(filter, hash)) << bits;
    }
  }
}

TEST(Bloom, RejectsAbsentKeysAtTheExpectedRate) {
  const std::vector<uint64_t> present = KeyHashes("in", 100000);
  const std::vector<uint64_t> absent = KeyHashes("out", 200000);
  // Expected: see docs/format/bloom.md.
  const std::map<int, double> expected = {
      {1, 0.632}, {4, 0.148}, {8, 0.0231}, {10, 0.0096}, {12, 0.0041}, {16, 0.00083}};
  for (const auto& [bits, rate] : expected) {
    const double measured = FalseRate(BloomBuild(present, bits), absent);
    EXPECT_LT(measured, rate * 1.15 + 0.0001) << bits;
    EXPECT_GT(measured, rate * 0.85 - 0.0001) << bits;
  }
}

TEST(Bloom, RateDoesNotSufferFromHowOwnersAndSlotsAreChosen) {
  // All keys of a table share the low bits of their hashes (by a program's own partitioner), the
  // high ones, or their owner.
  std::vector<uint64_t> owned, not_there;
  for (uint64_t i = 0; owned.size() + not_there.size() < 100000; ++i) {
    const uint64_t hash = base::HashKey(std::to_string(i));
    if (base::OwnerOf(hash, 16) == 3) (i % 2 == 0 ? owned : not_there).push_back(hash);
  }
  EXPECT_LT(FalseRate(BloomBuild(owned, 10), not_there), 0.0115);
  for (const bool low : {true, false}) {
    std::vector<uint64_t> present, absent;
    base::Random random(11);
    for (int i = 0; i < 100000; ++i) {
      const uint64_t hash = random.Next();
      (i % 2 == 0 ? present : absent).push_back(low ? hash << 8 | 17 : hash >> 8 | 17ull << 56);
    }
    EXPECT_LT(FalseRate(BloomBuild(present, 10), absent), 0.0115) << low;
  }
}

TEST(Bloom, SizeIsWhatWasAskedForInWholeBlocks) {
  EXPECT_EQ(BloomBuild({}, 10), "");
  EXPECT_EQ(BloomBuild(KeyHashes("k", 1), 10).size(), 64u + 6);
  EXPECT_EQ(BloomBuild(KeyHashes("k", 51), 10).size(), 64u + 6);
  EXPECT_EQ(BloomBuild(KeyHashes("k", 52), 10).size(), 2 * 64u + 6);
  EXPECT_EQ(BloomBuild(KeyHashes("k", 512), 1).size(), 64u + 1);
  EXPECT_EQ(BloomBuild(KeyHashes("k", 512), 32).size(), 32 * 64u + 14);
  EXPECT_EQ(BloomBuild(KeyHashes("k", 512), 0), BloomBuild(KeyHashes("k", 512), 1));
  EXPECT_EQ(BloomBuild(KeyHashes("k", 512), 1000), BloomBuild(KeyHashes("k", 512), 64));
}

TEST(Bloom, MalformedFiltersAnswerTrue) {
  const std::string filter = BloomBuild(KeyHashes("k", 100), 10);
  const uint64_t absent = base::HashKey("absent");
  ASSERT_FALSE(BloomMayContain(filter, absent));
  EXPECT_TRUE(BloomMayContain("", absent));
  EXPECT_TRUE(BloomMayContain("short", absent));
  EXPECT_TRUE(BloomMayContain(std::string(64, '\0'), absent));       // no probes
  EXPECT_TRUE(BloomMayContain(std::string(64 + 15, '\0'), absent));  // too many
  for (size_t size = 0; size < filter.size(); ++size) {
    BloomPrefetch(Slice(filter).substr(0, size), absent);
    for (uint64_t hash = 0; hash < 50; ++hash) {  // any answer, but within the bytes
      static_cast<void>(BloomMayContain(Slice(filter).substr(0, size), hash * 0x0123456789ABCDEF));
    }
  }
}

// The worked example of docs/format/bloom.md.
TEST(Bloom, BytesArePinned) {
  std::string expected(64 + 6, '\0');
  expected[5] = 0x20;
  expected[25] = 0x08;
  expected[36] = 0x08;
  expected[39] = 0x10;
  expected[43] = 0x01;
  expected[47] = 0x02;
  EXPECT_EQ(BloomBuild({base::HashKey("quire")}, 10), expected);
  const std::map<int, uint64_t> pinned = {
      {1, 0xD88AF84A7052D5DB}, {10, 0x007FDAEC3E6FE2A1}, {20, 0x233703BF85D5627D}};
  for (const auto& [bits, checksum] : pinned) {
    EXPECT_EQ(base::Checksum(BloomBuild(KeyHashes("key", 1000), bits), 0), checksum) << bits;
  }
}

}  // namespace
}  // namespace quire::filter::bloom_test
