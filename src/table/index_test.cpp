#include "table/index.h"

#include <gtest/gtest.h>

#include <set>

#include "table/block.h"
#include "table/format.h"
#include "table/table_testing.h"
#include "table/tombstone_set.h"

namespace quire::table::index_test {
namespace {

constexpr uint64_t kBlockBytes = 100;

// An index in memory of its own.
struct Index {
  Index(const std::string& contents, uint64_t block_count, uint64_t data_bytes)
      : memory(new uint64_t[TableIndex::MemoryBytes(block_count, contents.size()) / 8 + 1]) {
    char* const bytes = reinterpret_cast<char*>(memory.get());
    std::memcpy(TableIndex::StoredPlace(bytes, block_count), contents.data(), contents.size());
    index = TableIndex::Build(bytes, block_count, contents.size(), data_bytes, &why);
  }

  std::unique_ptr<uint64_t[]> memory;
  const TableIndex* index = nullptr;
  const char* why = nullptr;
};

std::string Contents(const std::vector<std::string>& separators) {
  IndexBuilder builder;
  for (const std::string& separator : separators) builder.Add(kBlockBytes, separator, false);
  return builder.bytes();
}

Index IndexOf(const std::vector<std::string>& separators) {
  return Index(Contents(separators), separators.size(), separators.size() * kBlockBytes);
}

TEST(Index, FindsTheFirstSeparatorNotBelowTheKey) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    base::Random random(seed);
    std::set<std::string> unique;
    const std::string common = RandomBytes(&random, random.Below(3) * 7);
    // Up to a few hundred; long ones with few letters, so that words of 8 bytes tie.
    const uint64_t tries = 1 + random.Below(seed * 10);
    const uint64_t tail = 1 + random.Below(20);
    for (uint64_t i = 0; i < tries; ++i) {
      unique.insert(common + std::string(random.Below(3) * 5, 'a') +
                    RandomBytes(&random, 1 + random.Below(tail)));
    }
    const std::vector<std::string> separators(unique.begin(), unique.end());
    const Index index = IndexOf(separators);
    ASSERT_NE(index.index, nullptr) << index.why;
    ASSERT_EQ(index.index->block_count(), separators.size());
    for (int i = 0; i < 500; ++i) {
      std::string key = common.substr(0, random.Below(common.size() + 1)) +
                        RandomBytes(&random, 1 + random.Below(12));
      if (random.OneIn(2))
        key = separators[random.Below(separators.size())] + RandomBytes(&random, random.Below(2));
      const auto expected = std::lower_bound(separators.begin(), separators.end(), key);
      ASSERT_EQ(index.index->FindBlock(key), static_cast<uint64_t>(expected - separators.begin()));
    }
  }
}

TEST(Index, RefusesKeysOutsideTheRangeOfABlock) {
  IndexBuilder builder;
  for (const char* const separator : {"ba", "cc"}) builder.Add(kBlockBytes, separator, false);
  const Index index(builder.bytes(), 2, 2 * kBlockBytes);
  ASSERT_NE(index.index, nullptr) << index.why;
  EXPECT_EQ(index.index->CheckKeys(0, {"", "a", "ba"}), nullptr);
  EXPECT_NE(index.index->CheckKeys(0, {"", "a", "baa"}), nullptr);
  EXPECT_EQ(index.index->CheckKeys(1, {"", "bb", "cc"}), nullptr);
  EXPECT_NE(index.index->CheckKeys(1, {"", "ba", "cc"}), nullptr);
  EXPECT_NE(index.index->CheckKeys(1, {"b", "a", "b"}), nullptr);
  EXPECT_NE(index.index->CheckKeys(1, {"", "bb", "cca"}), nullptr);
}

TEST(Index, ABlockMayBeginWithTheSeparatorOfOneThatContinues) {
  IndexBuilder builder;
  builder.Add(kBlockBytes, "b", true);
  builder.Add(kBlockBytes, "b", false);
  const Index index(builder.bytes(), 2, 2 * kBlockBytes);
  ASSERT_NE(index.index, nullptr) << index.why;
  EXPECT_EQ(index.index->CheckKeys(1, {"b", "", ""}), nullptr);
  EXPECT_NE(index.index->CheckKeys(1, {"", "a", "b"}), nullptr);
}

// Few letters, NUL among them, so that words tie, and keys end where their words are filled up.
std::string FewLetters(base::Random* random, size_t size_max) {
  std::string text(1 + random->Below(size_max), '\0');
  for (char& letter : text) letter = random->OneIn(3) ? '\0' : 'a';
  return text;
}

TEST(Index, KeysAreInTheRangeOfABlockWhereTheirBytesAre) {
  uint64_t accepted = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    base::Random random(seed);
    const std::string common(random.Below(12), 'c');
    std::set<std::string> unique;
    for (int i = 0; i < 8; ++i) unique.insert(common + FewLetters(&random, 12));
    const std::vector<std::string> separators(unique.begin(), unique.end());
    const Index index = IndexOf(separators);
    ASSERT_NE(index.index, nullptr) << index.why;
    for (int i = 0; i < 200; ++i) {
      const uint64_t block = random.Below(separators.size());
      std::string key = random.OneIn(4) ? separators[random.Below(separators.size())]
                                        : common.substr(random.Below(common.size() + 1)) +
                                              FewLetters(&random, 14);
      if (random.OneIn(4)) key += '\0';
      const Slice prefix = Slice(key).substr(0, random.Below(key.size() + 1));
      const Slice rest = Slice(key).substr(prefix.size());
      const bool inside = key <= separators[block] && (block == 0 || key > separators[block - 1]);
      ASSERT_EQ(index.index->CheckKeys(block, {prefix, rest, rest}) == nullptr, inside);
      accepted += inside ? 1 : 0;
    }
  }
  EXPECT_GT(accepted, 1000u);
}

TEST(Index, AnIndexOfNoBlocksFindsNone) {
  const Index index = IndexOf({});
  ASSERT_NE(index.index, nullptr);
  EXPECT_EQ(index.index->FindBlock("any"), 0u);
}

TEST(Index, ReturnsPlaceSizeAndContinuationOfEachBlock) {
  IndexBuilder builder;
  builder.Add(100, "b", false);
  builder.Add(5'000'000'000, "k", true);
  builder.Add(50, "k", false);
  const Index index(builder.bytes(), 3, 5'000'000'150);
  ASSERT_NE(index.index, nullptr);
  EXPECT_EQ(index.index->offset(1), 100u);
  EXPECT_EQ(index.index->stored_bytes(1), 5'000'000'000u);
  EXPECT_EQ(index.index->offset(3), 5'000'000'150u);
  EXPECT_FALSE(index.index->Continues(0));
  EXPECT_TRUE(index.index->Continues(1));
  EXPECT_EQ(index.index->separator(2), "k");
  EXPECT_EQ(index.index->FindBlock("k"), 1u) << "the first of the blocks that have the key";
}

TEST(Index, RefusesWhatNoBuilderWrites) {
  const std::string good = Contents({"a", "b"});
  EXPECT_NE(Index(good, 2, 200).index, nullptr);
  EXPECT_EQ(Index(good, 2, 199).index, nullptr) << "blocks larger than the data";
  EXPECT_EQ(Index(good, 2, 201).index, nullptr) << "data without a block";
  EXPECT_EQ(Index(good, 3, 200).index, nullptr) << "fewer blocks than promised";
  EXPECT_EQ(Index(good, 1, 100).index, nullptr) << "more blocks than promised";
  EXPECT_EQ(Index(good + "x", 2, 200).index, nullptr) << "bytes behind it";
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(Index(good.substr(0, size), 2, 200).index, nullptr);
  }
  EXPECT_EQ(IndexOf({"b", "a"}).index, nullptr) << "separators out of order";
  EXPECT_EQ(IndexOf({"a", "a"}).index, nullptr) << "equal ones that do not continue";
  EXPECT_EQ(IndexOf({""}).index, nullptr) << "an empty one";
  EXPECT_EQ(IndexOf({std::string(log::kKeyBytesMax + 1, 'x')}).index, nullptr) << "too long a one";
  IndexBuilder endless;
  endless.Add(kBlockBytes, "a", true);
  EXPECT_EQ(Index(endless.bytes(), 1, kBlockBytes).index, nullptr) << "the last one continues";
  IndexBuilder tiny;
  tiny.Add(kStoredBlockBytesMin - 1, "a", false);
  EXPECT_EQ(Index(tiny.bytes(), 1, kStoredBlockBytesMin - 1).index, nullptr)
      << "no block is so small";
}

TEST(Separator, LiesBetweenTheTwoKeysAndIsNoLongerThanTheFirst) {
  base::Random random(11);
  for (int i = 0; i < 20'000; ++i) {
    std::string last = RandomBytes(&random, 1 + random.Below(6));
    std::string next = RandomBytes(&random, 1 + random.Below(6));
    if (last == next) continue;
    if (next < last) std::swap(last, next);
    const std::string separator = ShortestSeparator(last, next);
    ASSERT_GE(separator, last);
    ASSERT_LT(separator, next);
    ASSERT_LE(separator.size(), last.size());
  }
  EXPECT_EQ(ShortestSeparator("abcdefgh", "abfghijk"), "abf");
}

TEST(TombstoneSet, FindsTheNewestThatCovers) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    base::Random random(seed);
    std::vector<RangeTombstone> tombstones;
    for (uint64_t i = 0; i < seed; ++i) {
      std::string begin = RandomBytes(&random, random.Below(3));
      std::string end = RandomBytes(&random, 1 + random.Below(3));
      if (begin >= end) continue;
      tombstones.push_back({begin, end, 1 + random.Below(100)});
    }
    const TombstoneSet set(tombstones);
    for (int i = 0; i < 300; ++i) {
      const std::string key = RandomBytes(&random, 1 + random.Below(3));
      const uint64_t snapshot = random.Below(110);
      uint64_t expected = 0;
      for (const RangeTombstone& tombstone : tombstones) {
        if (tombstone.begin <= key && key < tombstone.end && tombstone.lsn <= snapshot) {
          expected = std::max(expected, tombstone.lsn);
        }
      }
      ASSERT_EQ(set.Covering(key, snapshot), expected);
    }
  }
}

TEST(Footer, GivesBackWhatItWasGivenAndRefusesEveryChange) {
  Footer footer;
  footer.flags = kFlagFilter;
  footer.ssid = 3;
  footer.file_id = 99;
  footer.data_bytes = 1000;
  footer.index_bytes = 100;
  footer.filter_bytes = 80;
  footer.properties_bytes = 60;
  footer.block_count = 7;
  const std::string bytes = EncodeFooter(footer);
  ASSERT_EQ(bytes.size(), kFooterBytes);
  const Result<Footer> back = DecodeFooter(bytes, footer.file_bytes(), 3);
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(back->properties_offset(), 1180u);
  EXPECT_EQ(back->block_count, 7u);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(DecodeFooter(changed, footer.file_bytes(), 3).status().code(), Code::kCorruption);
  }
  EXPECT_FALSE(DecodeFooter(bytes, footer.file_bytes() + 1, 3).ok()) << "a file of another size";
  EXPECT_FALSE(DecodeFooter(bytes, footer.file_bytes(), 4).ok()) << "a file of another name";
  EXPECT_FALSE(DecodeFooter(bytes.substr(1), footer.file_bytes(), 3).ok());
}

TEST(Footer, RefusesSizesThatCannotBe) {
  Footer good;
  good.index_bytes = 100;
  good.properties_bytes = 60;
  good.data_bytes = 1000;
  const auto decode = [](const Footer& footer) {
    return DecodeFooter(EncodeFooter(footer), footer.file_bytes(), footer.ssid).status().code();
  };
  EXPECT_EQ(decode(good), Code::kOk);
  Footer bad = good;
  bad.index_bytes = UINT64_MAX - 50;  // the sum wraps
  EXPECT_EQ(decode(bad), Code::kCorruption);
  bad = good;
  bad.block_count = 1000;
  EXPECT_EQ(decode(bad), Code::kCorruption);
  bad = good;
  bad.index_bytes = 7;
  EXPECT_EQ(decode(bad), Code::kCorruption);
  bad = good;
  bad.filter_bytes = 16;
  EXPECT_EQ(decode(bad), Code::kCorruption) << "a filter that no flag tells of";
  bad = good;
  bad.flags = kFlagFilter;
  EXPECT_EQ(decode(bad), Code::kCorruption) << "a flag without its filter";
  bad = good;
  bad.flags = 4;
  EXPECT_EQ(decode(bad), Code::kCorruption) << "an unknown flag";
}

TEST(Footer, ANewerVersionIsNamed) {
  Footer footer;
  footer.index_bytes = 8;
  footer.properties_bytes = 20;
  footer.ssid = 1;
  std::string bytes = EncodeFooter(footer);
  bytes[8] = 2;
  const Slice checked = Slice(bytes).substr(0, kFooterBytes - kChecksumBytes);
  base::StoreLe(bytes.data() + checked.size(),
                PartChecksum(base::ChecksumKind::kFooter, footer.ssid,
                             footer.file_bytes() - kFooterBytes, checked));
  const Status status = DecodeFooter(bytes, footer.file_bytes(), 1).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("version 2"), std::string::npos) << status.ToString();
}

TEST(Properties, GiveBackWhatTheyWereGivenAndRefuseEveryTruncation) {
  TableInfo info;
  info.entry_count = 5;
  info.key_count = 4;
  info.tombstone_count = 3;
  info.raw_bytes = 1'000'000;
  info.min_lsn = 7;
  info.max_lsn = UINT64_MAX;
  info.smallest_key = std::string("\0a", 2);
  info.largest_key = "z";
  info.segments = {{1, 100}, {9, 200}};
  const std::vector<RangeTombstone> tombstones = {{"", "b", 9}, {"b", "c", 8}};
  const std::string bytes = EncodeProperties(info, tombstones);
  TableInfo back;
  std::vector<RangeTombstone> back_tombstones;
  ASSERT_TRUE(DecodeProperties(bytes, &back, &back_tombstones));
  EXPECT_EQ(EncodeProperties(back, back_tombstones), bytes);
  EXPECT_EQ(back.smallest_key, info.smallest_key);
  EXPECT_EQ(back.segments[1].bytes, 200u);
  EXPECT_EQ(back_tombstones[1].end, "c");
  for (size_t size = 0; size < bytes.size(); ++size) {
    TableInfo cut;
    std::vector<RangeTombstone> cut_tombstones;
    EXPECT_FALSE(DecodeProperties(Slice(bytes).substr(0, size), &cut, &cut_tombstones));
  }
  TableInfo more;
  std::vector<RangeTombstone> more_tombstones;
  EXPECT_FALSE(DecodeProperties(bytes + "x", &more, &more_tombstones));
  info.segments = {{9, 100}, {1, 200}};
  EXPECT_FALSE(DecodeProperties(EncodeProperties(info, {}), &more, &more_tombstones));
  info.segments.clear();
  EXPECT_FALSE(DecodeProperties(EncodeProperties(info, {{"b", "b", 1}}), &more, &more_tombstones));
}

}  // namespace
}  // namespace quire::table::index_test
