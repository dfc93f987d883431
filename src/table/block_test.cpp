#include "table/block.h"

#include <gtest/gtest.h>

#include "table/block_builder.h"
#include "table/compression.h"
#include "table/table_testing.h"

namespace quire::table::block_test {
namespace {

// Contents with the slack that FindTagged may read.
struct Block {
  explicit Block(const std::vector<TestEntry>& entries) {
    BlockBuilder builder;
    for (const TestEntry& entry : entries) {
      builder.Add(entry.key, TagOf(base::HashKey(entry.key)), entry.type, entry.value, entry.lsn);
    }
    builder.Finish(&buffer);
    size = buffer.size();
    std::memset(buffer.Reserve(kBlockSlackBytes), 0, kBlockSlackBytes);
  }
  Slice contents() const { return buffer.slice().substr(0, size); }
  BlockView view() const { return BlockView(contents()); }

  Buffer buffer;
  size_t size = 0;
};

const char* Validate(Slice contents) {
  BlockKeys keys;
  return ValidateBlock(contents, &keys);
}

TestEntry Owned(const BlockView& view, const BlockEntry& entry) {
  return {std::string(view.prefix()) + std::string(entry.suffix), entry.lsn, entry.type,
          std::string(entry.value)};
}

std::vector<TestEntry> AllOf(const BlockView& view) {
  std::vector<TestEntry> entries;
  for (uint32_t i = 0; i < view.count(); ++i) entries.push_back(Owned(view, view.Entry(i)));
  return entries;
}

// Looks a key up in each of the three ways; they must agree. Null: absent.
std::unique_ptr<TestEntry> Find(const BlockView& view, const std::string& key, uint64_t snapshot) {
  BlockEntry tagged;
  BlockEntry binary;
  BlockEntry sequential;
  bool passed = false;
  const bool found = view.FindTagged(key, TagOf(base::HashKey(key)), snapshot, &tagged);
  EXPECT_EQ(view.FindBinary(key, snapshot, &binary), found);
  EXPECT_EQ(view.FindSequential(key, snapshot, &sequential, &passed), found);
  if (!found) return nullptr;
  EXPECT_EQ(Owned(view, binary), Owned(view, tagged));
  EXPECT_EQ(Owned(view, sequential), Owned(view, tagged));
  return std::make_unique<TestEntry>(Owned(view, tagged));
}

// 300 entries with keys from "key1000" on, every other number.
std::vector<TestEntry> AlikeEntries(size_t value_size) {
  std::vector<TestEntry> entries;
  for (int i = 0; i < 300; ++i) {
    entries.push_back({"key" + std::to_string(1000 + 2 * i), 7, log::RecordType::kPut,
                       std::string(value_size, static_cast<char>('a' + i % 26))});
  }
  return entries;
}

TEST(Block, ABlockOfAlikeEntriesHasOneHead) {
  for (const size_t value_size : {size_t{0}, size_t{1}, size_t{56}, size_t{3000}}) {
    const std::vector<TestEntry> entries = AlikeEntries(value_size);
    const Block block(entries);
    // Head, tags, one head of entries, prefix ("key1"), suffixes of 3, values.
    EXPECT_EQ(block.size, 16 + 300 + 1 + 4 + 300 * (3 + value_size));
    ASSERT_EQ(Validate(block.contents()), nullptr);
    EXPECT_EQ(AllOf(block.view()), entries);
    for (int i = 0; i < 300; ++i) {
      const auto found = Find(block.view(), entries[static_cast<size_t>(i)].key, 7);
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(*found, entries[static_cast<size_t>(i)]);
      EXPECT_EQ(Find(block.view(), entries[static_cast<size_t>(i)].key, 6), nullptr);
      EXPECT_EQ(Find(block.view(), "key" + std::to_string(1001 + 2 * i), 7), nullptr);
    }
    for (size_t cut = 1; cut < entries.size(); ++cut) {
      ASSERT_NE(Validate(block.contents().substr(0, block.size - cut)), nullptr) << cut;
    }
  }
}

TEST(Block, ABlockWithOneOtherEntryHasAHeadForEach) {
  const TestEntry first = {"a1", 7, log::RecordType::kPut, "x"};
  for (const TestEntry& other : {TestEntry{"a2", 8, log::RecordType::kPut, "x"},
                                 TestEntry{"a22", 7, log::RecordType::kPut, "x"},
                                 TestEntry{"a2", 7, log::RecordType::kPut, "xx"},
                                 TestEntry{"a2", 7, log::RecordType::kDelete, ""}}) {
    const Block block({first, other});
    ASSERT_EQ(Validate(block.contents()), nullptr);
    EXPECT_EQ(block.contents()[6], 2);
    EXPECT_EQ(AllOf(block.view()), (std::vector<TestEntry>{first, other}));
  }
}

TEST(Block, CopiesBytesOfEverySizeAndNoOthers) {
  std::string from(80, '\0');
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i + 1);
  for (size_t size = 0; size <= 64; ++size) {
    std::string to(from.size(), '\0');
    CopyBytes(to.data() + 3, from.data() + 5, size);
    const std::string wanted = std::string(3, '\0') + from.substr(5, size);
    ASSERT_EQ(to, wanted + std::string(from.size() - wanted.size(), '\0'));
  }
}

TEST(Block, GivesBackWhatWasAdded) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<TestEntry> entries = RandomEntries(seed, {.key_count = 1 + seed * 3});
    const Block block(entries);
    ASSERT_EQ(Validate(block.contents()), nullptr);
    EXPECT_EQ(AllOf(block.view()), entries);
  }
}

TEST(Block, FindsTheNewestVersionAtOrBelowTheSnapshotInEveryMode) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    base::Random random(seed);
    const std::vector<TestEntry> entries =
        RandomEntries(seed, {.key_count = 40, .versions_max = 6});
    const Block block(entries);
    for (int i = 0; i < 500; ++i) {
      std::string key = RandomBytes(&random, 1 + random.Below(4));
      if (random.OneIn(2)) key = entries[random.Below(entries.size())].key;
      const uint64_t snapshot = random.OneIn(3) ? UINT64_MAX : random.Below(1 << 20);
      const auto expected = std::find_if(entries.begin(), entries.end(), [&](const TestEntry& e) {
        return e.key == key && e.lsn <= snapshot;
      });
      const std::unique_ptr<TestEntry> found = Find(block.view(), key, snapshot);
      ASSERT_EQ(found != nullptr, expected != entries.end());
      if (found != nullptr) {
        EXPECT_EQ(*found, *expected);
      }
    }
  }
}

TEST(Block, LowerBoundIsTheFirstEntryNotBelowTheKey) {
  const std::vector<TestEntry> entries = RandomEntries(3, {.key_count = 100, .key_bytes_max = 5});
  const Block block(entries);
  base::Random random(4);
  for (int i = 0; i < 3000; ++i) {
    const std::string key = RandomBytes(&random, random.Below(6));
    const auto expected =
        std::lower_bound(entries.begin(), entries.end(), TestEntry{key, UINT64_MAX});
    ASSERT_EQ(block.view().LowerBound(key), expected - entries.begin());
  }
}

TEST(Block, KeysOutsideItsPrefixLieOnTheRightSide) {
  const Block block({{"prefix_a", 1}, {"prefix_b", 1}});
  ASSERT_EQ(block.view().prefix(), "prefix_");
  for (const char* key : {"a", "prefi", "prefix_", "prefix!x"}) {
    EXPECT_EQ(block.view().LowerBound(key), 0u) << key;
    EXPECT_EQ(Find(block.view(), key, UINT64_MAX), nullptr);
  }
  for (const char* key : {"q", "prefiy", "prefix`", "prefix_b1"}) {
    EXPECT_EQ(block.view().LowerBound(key), 2u) << key;
    EXPECT_EQ(Find(block.view(), key, UINT64_MAX), nullptr);
  }
}

TEST(Block, OffsetsWidenBeyond64KiB) {
  std::vector<TestEntry> entries;
  for (int i = 0; i < 9; ++i) {
    entries.push_back({std::string(1, static_cast<char>('a' + i)), 7 + static_cast<uint64_t>(i),
                       log::RecordType::kPut, std::string(10'000, static_cast<char>(i))});
    const Block block(entries);
    ASSERT_EQ(Validate(block.contents()), nullptr);
    EXPECT_EQ(block.contents()[6], i < 7 ? 2 : 4);
    EXPECT_EQ(AllOf(block.view()), entries);
    EXPECT_EQ(*Find(block.view(), entries.back().key, UINT64_MAX), entries.back());
  }
}

TEST(Block, HoldsKeysAndLsnsOfEverySize) {
  const std::string longest(log::kKeyBytesMax, 'k');
  const std::vector<TestEntry> entries = {{std::string(1, '\0'), 0, log::RecordType::kPut, ""},
                                          {longest, UINT64_MAX, log::RecordType::kPut, "newest"},
                                          {longest, UINT64_MAX - 1, log::RecordType::kDelete, ""},
                                          {longest, 0, log::RecordType::kPut, "oldest"}};
  const Block mixed(entries);
  ASSERT_EQ(Validate(mixed.contents()), nullptr);
  EXPECT_EQ(AllOf(mixed.view()), entries);
  // All of the key but one byte is prefix: what the field can say.
  const Block alone({entries[1]});
  ASSERT_EQ(Validate(alone.contents()), nullptr);
  EXPECT_EQ(alone.view().prefix().size(), kBlockPrefixBytesMax);
  EXPECT_EQ(*Find(alone.view(), longest, UINT64_MAX), entries[1]);
}

TEST(Block, RefusesEveryTruncation) {
  const Block block(RandomEntries(5, {.key_count = 30}));
  for (size_t size = 0; size < block.size; ++size) {
    // Copied, so that the sanitizer sees a read past the end.
    const std::string cut(block.contents().substr(0, size));
    const char* const wrong = Validate(cut);
    // The last value, of a put, may just be shorter.
    if (wrong == nullptr) {
      EXPECT_EQ(BlockView(cut).count(), block.view().count());
    }
  }
}

TEST(Block, ChangedBytesAreRefusedOrReadWithinBounds) {
  for (const auto& whole : {RandomEntries(6, {.key_count = 40}), AlikeEntries(1)}) {
    const Block block(whole);
    uint64_t refused = 0;
    for (size_t at = 0; at < block.size; ++at) {
      for (const int change : {1, 0x80, 0xff, 0x10}) {
        std::string changed(block.contents());
        changed[at] = static_cast<char>(changed[at] ^ change);
        if (Validate(changed) != nullptr) {
          ++refused;
          continue;
        }
        std::vector<TestEntry> entries = AllOf(BlockView(changed));
        EXPECT_TRUE(std::is_sorted(entries.begin(), entries.end()));
      }
    }
    EXPECT_GT(refused, block.size / 2);
  }
}

TEST(Block, SaysWhichKeysItSpans) {
  const Block block({{"abb", 5}, {"abc", 4}, {"acc", 4}});
  BlockKeys keys;
  ASSERT_EQ(ValidateBlock(block.contents(), &keys), nullptr);
  EXPECT_EQ(keys.prefix, "a");
  EXPECT_EQ(keys.first, "bb");
  EXPECT_EQ(keys.last, "cc");
}

std::string WithByte(const Block& block, size_t at, char byte) {
  std::string changed(block.contents());
  changed[at] = byte;
  return changed;
}

TEST(Block, RefusesWhatNoBuilderWrites) {
  // head 16, two tags, two offsets of two bytes, no prefix: the first entry begins at 22.
  const Block block({{"a", 4, log::RecordType::kPut, "v"}, {"b", 5, log::RecordType::kPut, "w"}});
  ASSERT_EQ(block.contents()[22], 1 << 3 | 1);
  EXPECT_NE(Validate(WithByte(block, 0, 0)), nullptr) << "no entries";
  EXPECT_NE(Validate(WithByte(block, 0, 100)), nullptr) << "more entries than fit";
  EXPECT_NE(Validate(WithByte(block, 3, 0x7f)), nullptr) << "as many as can be";
  EXPECT_NE(Validate(WithByte(block, 5, '\xff')), nullptr) << "a prefix that does not fit";
  EXPECT_NE(Validate(WithByte(block, 6, 3)), nullptr) << "offsets of three bytes";
  EXPECT_NE(Validate(WithByte(block, 7, 1)), nullptr) << "a byte that is zero";
  EXPECT_NE(Validate(WithByte(block, 18, 1)), nullptr) << "the first offset is not 0";
  EXPECT_NE(Validate(WithByte(block, 20, 0)), nullptr) << "an entry of no bytes";
  EXPECT_NE(Validate(WithByte(block, 22, 1 << 3 | 2)), nullptr) << "a delete with a value";
  EXPECT_NE(Validate(WithByte(block, 22, 1 << 3 | 4)), nullptr) << "a short value reference";
  EXPECT_NE(Validate(WithByte(block, 22, 1 << 3 | 3)), nullptr) << "a range delete";
  EXPECT_NE(Validate(WithByte(block, 22, 1)), nullptr) << "a key of no bytes";
  EXPECT_NE(Validate(WithByte(block, 22, 9 << 3 | 1)), nullptr) << "a key longer than its entry";
  EXPECT_NE(Validate(WithByte(block, 22, '\x80')), nullptr) << "an endless varint";
  EXPECT_NE(Validate(WithByte(block, 24, 'c')), nullptr) << "keys out of order";
  EXPECT_NE(Validate(WithByte(block, 24, 'b')), nullptr) << "versions are ordered by LSN";
  std::string overflowing(block.contents());
  overflowing.replace(8, 8, 8, '\xff');
  EXPECT_NE(Validate(overflowing), nullptr) << "the second LSN is min_lsn + 1";
  const Block equal({{"a", 5}, {"a", 4}});
  EXPECT_EQ(Validate(equal.contents()), nullptr);
}

TEST(Block, RefusesAlikeEntriesThatNoBuilderWrites) {
  // head 16, two tags, one head of entries: the first entry begins at 19.
  const Block block({{"a", 4, log::RecordType::kPut, "v"}, {"b", 4, log::RecordType::kPut, "w"}});
  ASSERT_EQ(block.contents()[18], 1 << 3 | 1);
  ASSERT_EQ(block.size, 23u);
  EXPECT_NE(Validate(WithByte(block, 0, 3)), nullptr) << "entries of different sizes";
  EXPECT_NE(Validate(WithByte(block, 18, 3 << 3 | 1)), nullptr) << "keys longer than entries";
  EXPECT_NE(Validate(WithByte(block, 18, 1)), nullptr) << "keys of no bytes";
  EXPECT_NE(Validate(WithByte(block, 18, 1 << 3 | 2)), nullptr) << "deletes with values";
  EXPECT_NE(Validate(WithByte(block, 18, '\xff')), nullptr) << "an endless varint";
  EXPECT_NE(Validate(WithByte(block, 21, 'a')), nullptr) << "a key twice";
  std::string of_no_bytes(block.contents().substr(0, 19));
  EXPECT_NE(Validate(of_no_bytes), nullptr) << "no bytes of entries";
}

TEST(Compression, GivesBackWhatItWasGiven) {
  std::string raw;
  for (int i = 0; i < 500; ++i) raw += "entry " + std::to_string(i);
  for (const Compression kind : {Compression::kLz4, Compression::kZstd}) {
    Compressor compressor(kind);
    const Buffer* const stored = compressor.Compress(raw);
    ASSERT_NE(stored, nullptr);
    EXPECT_LT(stored->size(), raw.size() * 7 / 8);
    uint64_t raw_size = 0;
    Slice body;
    ASSERT_TRUE(RawSize(stored->slice(), &raw_size, &body));
    std::string back(raw_size, '\0');
    EXPECT_EQ(Decompress(compressor.form(), body, back.data(), raw_size), Code::kOk);
    EXPECT_EQ(back, raw);
  }
}

TEST(Compression, LeavesAloneWhatDoesNotShrink) {
  base::Random random(1);
  std::string raw(4096, '\0');
  for (char& byte : raw) byte = static_cast<char>(random.Next());
  for (const Compression kind : {Compression::kNone, Compression::kLz4, Compression::kZstd}) {
    EXPECT_EQ(Compressor(kind).Compress(raw), nullptr);
    EXPECT_EQ(Compressor(kind).Compress(Slice()), nullptr);
  }
}

TEST(Compression, RefusesDamagedBytes) {
  const std::string raw(4000, 'x');
  for (const Compression kind : {Compression::kLz4, Compression::kZstd}) {
    Compressor compressor(kind);
    const std::string stored(compressor.Compress(raw)->slice());
    uint64_t raw_size = 0;
    Slice body;
    ASSERT_TRUE(RawSize(stored, &raw_size, &body));
    std::string back(2 * raw_size, '\0');
    EXPECT_EQ(Decompress(compressor.form(), body, back.data(), raw_size - 1), Code::kCorruption);
    EXPECT_EQ(Decompress(compressor.form(), body, back.data(), raw_size + 1), Code::kCorruption);
    body.remove_suffix(1);
    EXPECT_EQ(Decompress(compressor.form(), body, back.data(), raw_size), Code::kCorruption);
    EXPECT_EQ(Decompress(BlockForm::kRaw, body, back.data(), raw_size), Code::kCorruption);
    EXPECT_EQ(Decompress(BlockForm{9}, body, back.data(), raw_size), Code::kCorruption);
  }
  uint64_t raw_size = 0;
  Slice body;
  EXPECT_FALSE(RawSize("", &raw_size, &body));
  std::string huge;
  base::PutVarint(&huge, kCompressedRawBytesMax + 1);
  EXPECT_FALSE(RawSize(huge, &raw_size, &body));
}

}  // namespace
}  // namespace quire::table::block_test
