#include "table/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "base/threads/epoch.h"
#include "io/paths/file_section.h"
#include "table/format.h"
#include "table/table_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::table::table_test {
namespace {

constexpr uint64_t kLargeCache = 64 << 20;

// A file system in memory with one table in it, and the entries that the table should have.
struct TableUnderTest {
  TableUnderTest(std::vector<TestEntry> wanted, const StorageOptions& table_options,
                 uint64_t cache_bytes = kLargeCache)
      : fs(io::NewSimFileSystem()),
        faults(io::NewFaultFileSystem(*fs)),
        options(table_options),
        entries(std::move(wanted)) {
    info = WriteTable(*fs, "/t-5.sst", 5, options, entries);
    cache = NewBlockCache(cache_bytes);
    Reopen();
  }

  void Reopen() {
    Result<std::shared_ptr<Table>> opened = Table::Open(*faults, "/t-5.sst", 5, options, cache);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    table = *opened;
  }

  // Returns the table's entry; nothing if it is absent. Failures fail the test.
  std::optional<TestEntry> Get(const std::string& key, uint64_t snapshot = UINT64_MAX) const {
    const base::EpochGuard guard;
    const uint64_t hash = base::HashKey(key);
    LookupResult found;
    const Status status = table->Get(key, hash, snapshot, &found);
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (found.state == KeyState::kAbsent) return std::nullopt;
    EXPECT_TRUE(table->MayContain(hash));
    return TestEntry{key, found.lsn, TypeOf(found.state), std::string(found.value)};
  }

  // Returns the entry that Get should return.
  std::optional<TestEntry> Expected(const std::string& key, uint64_t snapshot = UINT64_MAX) const {
    const auto at = std::lower_bound(entries.begin(), entries.end(), TestEntry{key, snapshot});
    if (at == entries.end() || at->key != key) return std::nullopt;
    return *at;
  }

  std::unique_ptr<io::SimFileSystem> fs;
  std::unique_ptr<io::FaultFileSystem> faults;
  StorageOptions options;
  std::vector<TestEntry> entries;
  TableInfo info;
  std::shared_ptr<BlockCache> cache;
  std::shared_ptr<Table> table;
};

StorageOptions SmallBlocks(uint64_t block_bytes = 512) {
  StorageOptions options;
  options.block_bytes = block_bytes;
  return options;
}

void CheckLookups(const TableUnderTest& test, base::Random* random, int count) {
  for (int i = 0; i < count; ++i) {
    std::string key = RandomBytes(random, 1 + random->Below(6));
    if (!random->OneIn(3)) key = test.entries[random->Below(test.entries.size())].key;
    const uint64_t snapshot = random->OneIn(3) ? random->Below(1 << 20) : UINT64_MAX;
    ASSERT_EQ(test.Get(key, snapshot), test.Expected(key, snapshot));
  }
}

// Random steps of an iterator beside a position among the sorted entries (-1 and size: not valid).
void CheckWalk(const TableUnderTest& test, EntryIterator* iterator, base::Random* random,
               int count) {
  const auto& entries = test.entries;
  const auto size = static_cast<ptrdiff_t>(entries.size());
  ptrdiff_t at = -1;
  for (int i = 0; i < count; ++i) {
    const uint64_t step = random->Below(20);
    std::string key = RandomBytes(random, random->Below(5));
    if (random->OneIn(2)) key = entries[random->Below(entries.size())].key;
    const ptrdiff_t bound =
        std::lower_bound(entries.begin(), entries.end(), TestEntry{key, UINT64_MAX}) -
        entries.begin();
    if (step == 0) {
      iterator->SeekToFirst();
      at = 0;
    } else if (step == 1) {
      iterator->SeekToLast();
      at = size - 1;
    } else if (step < 4) {
      iterator->Seek(key);
      at = bound;
    } else if (step < 6) {
      iterator->SeekBefore(key);
      at = bound - 1;
    } else if (iterator->Valid()) {
      const bool forward = i % 200 < 100;
      forward ? iterator->Next() : iterator->Prev();
      at += forward ? 1 : -1;
    }
    ASSERT_TRUE(iterator->status().ok()) << iterator->status().ToString();
    ASSERT_EQ(iterator->Valid(), at >= 0 && at < size);
    if (iterator->Valid()) {
      ASSERT_EQ(Present(*iterator), entries[static_cast<size_t>(at)]);
    }
  }
}

TEST(Table, AnswersLikeASortedListInEverySearchModeAndCompression) {
  uint64_t seed = 0;
  for (const SearchMode search :
       {SearchMode::kSequential, SearchMode::kBinary, SearchMode::kTagged}) {
    for (const Compression compression :
         {Compression::kNone, Compression::kLz4, Compression::kZstd}) {
      for (const uint64_t cache_bytes : {uint64_t{0}, uint64_t{6000}, kLargeCache}) {
        SCOPED_TRACE(++seed);
        base::Random random(seed);
        StorageOptions options = SmallBlocks(512 << random.Below(4));
        options.search = search;
        options.compression = compression;
        options.bloom_bits_per_key = static_cast<int>(random.Below(2)) * 10;
        options.verify_checksums = !random.OneIn(3);
        const TableUnderTest test(RandomEntries(seed, {.key_count = 20 + 100 * (seed % 3)}),
                                  options, cache_bytes);
        CheckLookups(test, &random, 1500);
        for (const bool fill_cache : {true, false}) {
          const std::unique_ptr<EntryIterator> iterator = test.table->NewIterator(fill_cache);
          EXPECT_EQ(ReadAll(iterator.get()), test.entries);
          CheckWalk(test, iterator.get(), &random, 1500);
        }
        const Status verified = test.table->Verify();
        EXPECT_TRUE(verified.ok()) << verified.ToString();
        EXPECT_LE(Statistics(*test.cache).charged_bytes, cache_bytes);
      }
    }
  }
}

TEST(Table, HoldsTheLongestKeysAndLargeValues) {
  for (const Compression compression : {Compression::kNone, Compression::kZstd}) {
    StorageOptions options;
    options.compression = compression;
    const TableUnderTest test(RandomEntries(7, {.key_count = 60, .giants = 6}), options);
    for (const TestEntry& entry : test.entries) {
      ASSERT_EQ(test.Get(entry.key, entry.lsn), entry);
    }
    base::Random random(8);
    for (const bool fill_cache : {true, false}) {
      const std::unique_ptr<EntryIterator> iterator = test.table->NewIterator(fill_cache);
      EXPECT_EQ(ReadAll(iterator.get()), test.entries);
      CheckWalk(test, iterator.get(), &random, 300);
    }
    EXPECT_TRUE(test.table->Verify().ok());
  }
}

TEST(Table, VersionsOfOneKeyThatFillManyBlocksAreAllFound) {
  std::vector<TestEntry> entries = {{"a", 1}, {"z", 1}};
  for (uint64_t lsn = 1; lsn <= 500; ++lsn) {
    entries.push_back({"many", 2 * lsn, log::RecordType::kPut, "value " + std::to_string(lsn)});
  }
  std::sort(entries.begin(), entries.end());
  for (const SearchMode search :
       {SearchMode::kSequential, SearchMode::kBinary, SearchMode::kTagged}) {
    StorageOptions options = SmallBlocks();
    options.search = search;
    const TableUnderTest test(entries, options);
    for (uint64_t snapshot = 0; snapshot <= 1001; ++snapshot) {
      ASSERT_EQ(test.Get("many", snapshot), test.Expected("many", snapshot));
    }
    EXPECT_EQ(test.Get("z"), entries.back());
    const std::unique_ptr<EntryIterator> iterator = test.table->NewIterator(true);
    iterator->Seek("many");
    EXPECT_EQ(Present(*iterator), *test.Expected("many")) << "the newest";
    iterator->SeekBefore("many");
    EXPECT_EQ(Present(*iterator), entries.front());
    EXPECT_EQ(test.table->info().key_count, 3u);
    EXPECT_TRUE(test.table->Verify().ok());
  }
}

TEST(Table, ALookupReadsIndexAndFilterOnceAndThenOneBlock) {
  TableUnderTest test(RandomEntries(9, {.key_count = 3000, .versions_max = 2}), SmallBlocks(4096));
  test.faults->FailAt(io::kFaultRead, 1, 0, Code::kIo);
  EXPECT_TRUE(test.Get(test.entries[0].key).has_value());
  EXPECT_EQ(test.faults->calls(), 3u) << "index, block, filter";
  test.Get(test.entries[0].key);
  EXPECT_EQ(test.faults->calls(), 3u) << "nothing more";
  uint64_t calls = 3;
  for (size_t i = 0; i < test.entries.size(); i += 7) {
    const uint64_t misses = Statistics(*test.cache).misses;
    test.Get(test.entries[i].key);
    ASSERT_LE(Statistics(*test.cache).misses, misses + 1);
    ASSERT_LE(test.faults->calls(), calls + 1);
    calls = test.faults->calls();
  }
  const CacheStatistics statistics = Statistics(*test.cache);
  EXPECT_EQ(statistics.misses, calls);
  EXPECT_GT(statistics.hits, 0u);
}

TEST(Table, TheFilterNeverRejectsAKeyAndRejectsMostOthers) {
  TableUnderTest test(RandomEntries(10, {.key_count = 2000, .key_bytes_max = 9}),
                      SmallBlocks(4096));
  const base::EpochGuard guard;
  for (const TestEntry& entry : test.entries) {
    const uint64_t hash = base::HashKey(entry.key);
    test.table->PrefetchFilter(hash);
    ASSERT_TRUE(test.table->MayContain(hash));
  }
  uint64_t passed = 0;
  for (uint64_t i = 0; i < 10'000; ++i) {
    passed += test.table->MayContain(base::HashKey("absent " + std::to_string(i))) ? 1 : 0;
  }
  EXPECT_LT(passed, 300u);
  test.options.bloom_bits_per_key = 0;
  ASSERT_TRUE(test.fs->Unlink("/t-5.sst").ok());
  WriteTable(*test.fs, "/t-5.sst", 5, test.options, test.entries);
  test.Reopen();
  EXPECT_TRUE(test.table->MayContain(base::HashKey("absent")));
}

TEST(Table, AnUnreadableFilterFailsOpen) {
  TableUnderTest test(RandomEntries(11, {}), SmallBlocks());
  test.faults->FailAt(io::kFaultRead, 1, 1, Code::kIo);
  const base::EpochGuard guard;
  EXPECT_TRUE(test.table->MayContain(base::HashKey("absent")));
  EXPECT_FALSE(test.table->MayContain(base::HashKey("absent"))) << "read the second time";
}

TEST(Table, SaysWhatItHolds) {
  std::vector<TestEntry> entries = {
      {"a", 10, log::RecordType::kPut, "12345"},
      {"b", 9, log::RecordType::kDelete},
      {"b", 8, log::RecordType::kValueRef, ValueRefBytes(4, 1, 1000)},
      {"c", 7, log::RecordType::kValueRef, ValueRefBytes(2, 1, 50)},
      {"d", 6, log::RecordType::kValueRef, ValueRefBytes(4, 1, 2000)}};
  const auto fs = io::NewSimFileSystem();
  const TableInfo info =
      WriteTable(*fs, "/t-1.sst", 1, StorageOptions(), entries, {{"Z", "ccc", 99}, {"c", "x", 3}});
  const auto opened = Table::Open(*fs, "/t-1.sst", 1, StorageOptions(), NewBlockCache(1 << 20));
  ASSERT_TRUE(opened.ok());
  for (const TableInfo& said : {info, (*opened)->info()}) {
    EXPECT_EQ(said.ssid, 1u);
    EXPECT_EQ(said.file_id, kTestFileId + 1);
    EXPECT_EQ(said.entry_count, 5u);
    EXPECT_EQ(said.key_count, 4u);
    EXPECT_EQ(said.tombstone_count, 3u);
    EXPECT_EQ(said.raw_bytes, 5 + 3 * 32 + 5u);
    EXPECT_EQ(said.min_lsn, 3u);
    EXPECT_EQ(said.max_lsn, 99u);
    EXPECT_EQ(said.smallest_key, "Z");
    EXPECT_EQ(said.largest_key, "x");
    ASSERT_EQ(said.segments.size(), 2u);
    EXPECT_EQ(said.segments[0].segment_id, 2u);
    EXPECT_EQ(said.segments[0].bytes, log::RecordSize(1, 50));
    EXPECT_EQ(said.segments[1].bytes, log::RecordSize(1, 1000) + log::RecordSize(1, 2000));
    EXPECT_EQ(said.file_bytes, (*fs->Open("/t-1.sst", io::FileOpenMode::kRead))->Size().value());
  }
  EXPECT_TRUE((*opened)->Verify().ok());
}

TEST(Table, RangeTombstonesComeBackAndCover) {
  const auto fs = io::NewSimFileSystem();
  WriteTable(*fs, "/t-1.sst", 1, StorageOptions(), {{"b", 10}}, {{"a", "c", 5}, {"b", "d", 20}});
  const auto opened = Table::Open(*fs, "/t-1.sst", 1, StorageOptions(), NewBlockCache(1 << 20));
  ASSERT_TRUE(opened.ok());
  const Table& table = **opened;
  ASSERT_EQ(table.range_tombstones().size(), 2u);
  EXPECT_EQ(table.range_tombstones()[1].begin, "b");
  EXPECT_EQ(table.CoveringTombstone("b", UINT64_MAX), 20u);
  EXPECT_EQ(table.CoveringTombstone("b", 19), 5u);
  EXPECT_EQ(table.CoveringTombstone("c", 19), 0u);
  EXPECT_EQ(table.CoveringTombstone("d", UINT64_MAX), 0u);
}

TEST(Table, ATableOfRangeTombstonesAloneHasNoEntries) {
  const auto fs = io::NewSimFileSystem();
  const TableInfo info = WriteTable(*fs, "/t-1.sst", 1, StorageOptions(), {}, {{"a", "c", 5}});
  EXPECT_EQ(info.smallest_key, "a");
  EXPECT_EQ(info.largest_key, "c");
  const auto opened = Table::Open(*fs, "/t-1.sst", 1, StorageOptions(), NewBlockCache(1 << 20));
  ASSERT_TRUE(opened.ok());
  const base::EpochGuard guard;
  EXPECT_FALSE((*opened)->MayContain(base::HashKey("b")));
  LookupResult found;
  ASSERT_TRUE((*opened)->Get("b", base::HashKey("b"), UINT64_MAX, &found).ok());
  EXPECT_EQ(found.state, KeyState::kAbsent);
  const std::unique_ptr<EntryIterator> iterator = (*opened)->NewIterator(true);
  iterator->SeekToFirst();
  EXPECT_FALSE(iterator->Valid());
  iterator->SeekToLast();
  EXPECT_FALSE(iterator->Valid());
  iterator->SeekBefore("b");
  EXPECT_FALSE(iterator->Valid());
  EXPECT_TRUE((*opened)->Verify().ok());
}

TEST(Table, LiesAnywhereInAFileWithOthers) {
  const auto fs = io::NewSimFileSystem();
  auto opened = fs->Open("/tables", io::FileOpenMode::kReadWriteCreate);
  ASSERT_TRUE(opened.ok());
  const std::shared_ptr<io::File> file = std::move(*opened);
  std::vector<uint64_t> begins;
  for (uint64_t i = 1; i <= 3; ++i) {
    begins.push_back(*file->Size());
    const auto builder = TableBuilder::CreateIn(io::NewFileTail(file, begins.back()), i,
                                                kTestFileId + i, SmallBlocks());
    const TableInfo info = FillTable(*builder, RandomEntries(i, EntryShape()));
    EXPECT_EQ(begins.back() + info.file_bytes, *file->Size());
  }
  begins.push_back(*file->Size());
  ASSERT_OK(fs->Damage("/tables", [&](std::string* bytes) { (*bytes)[begins[2] + 9] ^= 1; }));
  for (uint64_t i = 1; i <= 3; ++i) {
    const uint64_t begin = begins[i - 1];
    const auto table = Table::OpenIn(io::NewFileSection(file, begin, begins[i] - begin), i,
                                     SmallBlocks(), NewBlockCache(1 << 20));
    ASSERT_OK(table.status());
    const Status verified = (*table)->Verify();
    EXPECT_EQ(verified.ok(), i < 3) << verified.ToString();
    if (i < 3) {
      EXPECT_EQ(ReadAll((*table)->NewIterator(false).get()), RandomEntries(i, EntryShape()));
    } else {
      EXPECT_THAT(verified.message(), testing::HasSubstr("/tables from " + std::to_string(begin)));
    }
  }
}

TEST(Table, IsReadableAfterItsFileIsUnlinked) {
  TableUnderTest test(RandomEntries(12, {}), SmallBlocks());
  ASSERT_TRUE(test.fs->Unlink("/t-5.sst").ok());
  for (const TestEntry& entry : test.entries) EXPECT_EQ(test.Get(entry.key, entry.lsn), entry);
}

TEST(Table, ItsBlocksLeaveTheCacheWithIt) {
  TableUnderTest test(RandomEntries(13, {}), SmallBlocks());
  TableUnderTest other(RandomEntries(14, {}), SmallBlocks());
  other.cache = test.cache;
  other.Reopen();
  other.Get(other.entries[0].key);
  const uint64_t before = Statistics(*test.cache).charged_bytes;
  for (const TestEntry& entry : test.entries) test.Get(entry.key);
  EXPECT_GT(Statistics(*test.cache).charged_bytes, before);
  test.table.reset();
  EXPECT_EQ(Statistics(*test.cache).charged_bytes, before);
  EXPECT_EQ(other.Get(other.entries[0].key), other.Expected(other.entries[0].key));
}

TEST(Table, AnIteratorOutlivesTableAndCacheHandle) {
  for (const bool fill_cache : {true, false}) {
    TableUnderTest test(RandomEntries(15, {}), SmallBlocks(), 3000);
    const std::unique_ptr<EntryIterator> iterator = test.table->NewIterator(fill_cache);
    test.table.reset();
    test.cache.reset();
    EXPECT_EQ(ReadAll(iterator.get()), test.entries);
  }
}

TEST(Table, AnIteratorForCompactionsLeavesTheCacheAsItIs) {
  TableUnderTest test(RandomEntries(16, {}), SmallBlocks());
  EXPECT_EQ(ReadAll(test.table->NewIterator(false).get()), test.entries);
  EXPECT_EQ(Statistics(*test.cache).charged_bytes, 0u);
  EXPECT_EQ(ReadAll(test.table->NewIterator(true).get()), test.entries);
  const uint64_t charged = Statistics(*test.cache).charged_bytes;
  EXPECT_GT(charged, 0u);
  EXPECT_EQ(ReadAll(test.table->NewIterator(false).get()), test.entries);
  EXPECT_EQ(Statistics(*test.cache).charged_bytes, charged);
}

TEST(Table, AReadThatFailsIsReportedAndTheNextOneWorks) {
  TableUnderTest test(RandomEntries(17, {.key_count = 100}), SmallBlocks());
  const std::string& key = test.entries[50].key;
  for (uint64_t n = 1;; ++n) {
    test.cache = NewBlockCache(kLargeCache);
    test.faults->FailAt(io::kFaultRead | io::kFaultOpen, n, 1, Code::kIo);
    const auto opened = Table::Open(*test.faults, "/t-5.sst", 5, test.options, test.cache);
    Status status = opened.status();
    if (opened.ok()) {
      const base::EpochGuard guard;
      LookupResult found;
      status = (*opened)->Get(key, base::HashKey(key), UINT64_MAX, &found);
      EXPECT_EQ(found.state != KeyState::kAbsent, status.ok());
      const std::unique_ptr<EntryIterator> iterator = (*opened)->NewIterator(n % 2 == 0);
      std::vector<TestEntry> read = ReadAll(iterator.get());
      if (status.ok()) status = iterator->status();
      EXPECT_EQ(read == test.entries, iterator->status().ok());
      EXPECT_EQ(ReadAll(iterator.get()), test.entries) << "once the disk works again";
      if (status.ok()) status = (*opened)->Verify();
    }
    if (test.faults->failures() == 0) {
      EXPECT_GT(n, 6u);
      break;
    }
    ASSERT_EQ(status.code(), Code::kIo) << "call " << n;
  }
}

TEST(TableBuilder, FailsWithTheFileSystemAndStaysFailed) {
  const std::vector<TestEntry> entries = RandomEntries(18, {.key_count = 200});
  for (const Code code : {Code::kNoSpace, Code::kIo}) {
    for (uint64_t n = 1;; ++n) {
      const auto sim = io::NewSimFileSystem();
      const auto faults = io::NewFaultFileSystem(*sim);
      faults->FailAt(io::kFaultOpen | io::kFaultWrite | io::kFaultSync, n, 1, code);
      auto builder = TableBuilder::Create(*faults, "/t-1.sst", 1, 7, SmallBlocks());
      Status status = builder.status();
      for (size_t i = 0; i < entries.size() && status.ok(); ++i) {
        const TestEntry& entry = entries[i];
        status = (*builder)->Add(entry.key, entry.type, entry.value, entry.lsn);
      }
      if (status.ok()) status = (*builder)->Finish().status();
      if (faults->failures() == 0) {
        EXPECT_TRUE(status.ok());
        EXPECT_GT(n, 2u);
        break;
      }
      ASSERT_EQ(status.code(), code) << "call " << n;
    }
  }
}

TEST(TableBuilder, ReportsAWriteThatFailsWhileEntriesAreAdded) {
  const auto sim = io::NewSimFileSystem();
  auto builder = TableBuilder::Create(*sim, "/t-1.sst", 1, 7, StorageOptions());
  ASSERT_TRUE(builder.ok());
  sim->SetFreeBytes(1 << 20);
  Status status;
  int added = 0;
  for (; added < 100'000 && status.ok(); ++added) {
    char key[16];
    std::snprintf(key, sizeof key, "%08d", added);
    status = (*builder)->Add(key, log::RecordType::kPut, std::string(100, 'v'), 1);
  }
  EXPECT_EQ(status.code(), Code::kNoSpace);
  EXPECT_GT(added, 1000);
  EXPECT_EQ((*builder)->Add("z", log::RecordType::kPut, "", 1).code(), Code::kNoSpace);
  EXPECT_EQ((*builder)->Finish().status().code(), Code::kNoSpace);
}

TEST(TableBuilder, RefusesWhatCannotStandInATable) {
  const auto fs = io::NewSimFileSystem();
  auto created = TableBuilder::Create(*fs, "/t-1.sst", 1, 7, StorageOptions());
  ASSERT_TRUE(created.ok());
  EXPECT_FALSE(TableBuilder::Create(*fs, "/t-1.sst", 1, 7, StorageOptions()).ok()) << "it exists";
  TableBuilder& builder = **created;
  const auto add = [&](Slice key, log::RecordType type, Slice value, uint64_t lsn) {
    return builder.Add(key, type, value, lsn).code();
  };
  EXPECT_EQ(add("", log::RecordType::kPut, "", 1), Code::kInvalidArgument);
  EXPECT_EQ(add(std::string(65537, 'k'), log::RecordType::kPut, "", 1), Code::kInvalidArgument);
  EXPECT_EQ(add("k", log::RecordType::kDelete, "v", 1), Code::kInvalidArgument);
  EXPECT_EQ(add("k", log::RecordType::kValueRef, "v", 1), Code::kInvalidArgument);
  EXPECT_EQ(add("k", log::RecordType::kRangeDelete, "v", 1), Code::kInvalidArgument);
  EXPECT_EQ(builder.AddRangeTombstone({"b", "b", 1}).code(), Code::kInvalidArgument);
  EXPECT_EQ(builder.AddRangeTombstone({"b", std::string(65537, 'k'), 1}).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(add("k", log::RecordType::kPut, "good", 5), Code::kOk) << "nothing was done so far";
  EXPECT_EQ(add("k", log::RecordType::kPut, "same LSN", 5), Code::kCorruption);
  EXPECT_EQ(add("l", log::RecordType::kPut, "", 5), Code::kCorruption) << "and no further";
  EXPECT_EQ(builder.Finish().status().code(), Code::kCorruption);
}

TEST(TableBuilder, RefusesKeysAndVersionsOutOfOrder) {
  const auto fs = io::NewSimFileSystem();
  for (const TestEntry& next : {TestEntry{"a", 9}, TestEntry{"b", 6}, TestEntry{"b", 5}}) {
    auto builder = TableBuilder::Create(*fs, "/t-1.sst", 1, 7, StorageOptions());
    ASSERT_TRUE(builder.ok());
    ASSERT_TRUE((*builder)->Add("b", log::RecordType::kPut, "", 5).ok());
    EXPECT_EQ((*builder)->Add(next.key, next.type, next.value, next.lsn).code(), Code::kCorruption);
    ASSERT_TRUE(fs->Unlink("/t-1.sst").ok());
  }
}

// A table of one small pair, whose only block was compressed to 20 bytes and has 9 behind them.
TEST(TableBuilder, ABlockMayBecomeSmallerThanAnyThatIsNotCompressed) {
  Footer footer;
  footer.ssid = 5;
  footer.data_bytes = 29;
  footer.index_bytes = 12;
  footer.properties_bytes = 22;
  footer.block_count = 1;
  EXPECT_OK(DecodeFooter(EncodeFooter(footer), footer.file_bytes(), 5).status());
  footer.data_bytes = kStoredBlockBytesMin - 1;
  EXPECT_CODE(DecodeFooter(EncodeFooter(footer), footer.file_bytes(), 5).status(),
              Code::kCorruption);
}

TEST(TableBuilder, CompressesWhatShrinks) {
  const auto fs = io::NewSimFileSystem();
  std::vector<TestEntry> entries;
  for (int i = 0; i < 1000; ++i) {
    entries.push_back(
        {"key" + std::to_string(1000 + i), 1, log::RecordType::kPut, std::string(100, 'v')});
  }
  StorageOptions options;
  const uint64_t raw = WriteTable(*fs, "/t-1.sst", 1, options, entries).file_bytes;
  options.compression = Compression::kLz4;
  EXPECT_LT(WriteTable(*fs, "/t-2.sst", 2, options, entries).file_bytes, raw / 3);
  options.compression = Compression::kZstd;
  EXPECT_LT(WriteTable(*fs, "/t-3.sst", 3, options, entries).file_bytes, raw / 3);
}

TEST(TableBuilder, ReportsItsSizeAsItGrows) {
  const auto fs = io::NewSimFileSystem();
  auto builder = TableBuilder::Create(*fs, "/t-1.sst", 1, 7, StorageOptions());
  ASSERT_TRUE(builder.ok());
  uint64_t last = (*builder)->file_bytes();
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    ASSERT_TRUE(
        (*builder)
            ->Add(std::string(1, letter), log::RecordType::kPut, std::string(5000, letter), 1)
            .ok());
    EXPECT_GE((*builder)->file_bytes(), last + 5000);
    last = (*builder)->file_bytes();
  }
  EXPECT_LT((*builder)->Finish()->file_bytes, last + 2000);
}

// Lookups and walks from several threads through a cache that holds a few blocks only.
TEST(Table, ReadersOfATinyCacheReadTheRightValues) {
  for (const uint64_t cache_bytes : {uint64_t{0}, uint64_t{12'000}, uint64_t{40'000}}) {
    const TableUnderTest test(RandomEntries(19, {.key_count = 400}), SmallBlocks(), cache_bytes);
    std::atomic<uint64_t> wrong{0};
    std::vector<std::thread> threads;
    for (uint64_t thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, thread] {
        base::Random random(thread);
        const std::unique_ptr<EntryIterator> iterator = test.table->NewIterator(true);
        for (int i = 0; i < 300; ++i) {
          const TestEntry& entry = test.entries[random.Below(test.entries.size())];
          if (test.Get(entry.key, entry.lsn) != entry) ++wrong;
          iterator->Seek(entry.key);
          for (int next = 0; next < 5 && iterator->Valid(); ++next) iterator->Next();
          if (!iterator->status().ok()) ++wrong;
          if (iterator->Valid() &&
              test.Expected(std::string(iterator->key()), iterator->lsn()) != Present(*iterator))
            ++wrong;
          if (Statistics(*test.cache).charged_bytes > cache_bytes) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0u);
  }
}

}  // namespace
}  // namespace quire::table::table_test
