// Damaged, misplaced, old and foreign table files: what is read from them is right, or an error.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>

#include "base/text/coding.h"
#include "base/threads/epoch.h"
#include "table/format.h"
#include "table/index.h"
#include "table/table.h"
#include "table/table_testing.h"
#include "tests/support/golden.h"
#include "tests/support/temp_directory.h"

namespace quire::table::table_damage_test {
namespace {

// The results of reading all of a table.
struct Outcome {
  bool opened = false;
  uint64_t wrong = 0;   ///< answers that the table never had
  uint64_t failed = 0;  ///< gets that gave an error
  Status walked;
  Status verified;
  Status checksums;
  bool walked_all = false;
};

void CheckGets(const Table& table, const std::vector<TestEntry>& entries, Outcome* outcome) {
  for (const TestEntry& entry : entries) {
    const base::EpochGuard guard;
    LookupResult found;
    const Status status = table.Get(entry.key, base::HashKey(entry.key), entry.lsn, &found);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), Code::kCorruption);
      ++outcome->failed;
    } else if (found.state == KeyState::kAbsent ||
               TestEntry{entry.key, found.lsn, TypeOf(found.state), std::string(found.value)} !=
                   entry) {
      ++outcome->wrong;
    }
    if (!table.MayContain(base::HashKey(entry.key))) ++outcome->wrong;
  }
  for (const char* absent : {"absent", "key/1", "zzz", "\x01"}) {
    const base::EpochGuard guard;
    LookupResult found;
    const Status status = table.Get(absent, base::HashKey(absent), UINT64_MAX, &found);
    if (status.ok() && found.state != KeyState::kAbsent) ++outcome->wrong;
  }
}

// Reads "/t-1.sst" in every way, as a table that should have `entries`.
Outcome ReadEverything(io::FileSystem& fs, const std::vector<TestEntry>& entries) {
  Outcome outcome;
  const auto cache = NewBlockCache(1 << 20);
  const auto opened = Table::Open(fs, "/t-1.sst", 1, StorageOptions(), cache);
  if (!opened.ok()) {
    EXPECT_TRUE(opened.status().code() == Code::kCorruption ||
                opened.status().code() == Code::kUnsupported)
        << opened.status().ToString();
    EXPECT_NE(opened.status().message().find("/t-1.sst"), std::string::npos)
        << opened.status().ToString();
    return outcome;
  }
  outcome.opened = true;
  CheckGets(**opened, entries, &outcome);
  for (const bool fill_cache : {true, false}) {
    const std::unique_ptr<EntryIterator> iterator = (*opened)->NewIterator(fill_cache);
    const std::vector<TestEntry> read = ReadAll(iterator.get());
    outcome.walked = iterator->status();
    outcome.walked_all = read == entries;
    const bool prefix =
        read.size() <= entries.size() && std::equal(read.begin(), read.end(), entries.begin());
    if (!prefix || (outcome.walked.ok() && !outcome.walked_all)) ++outcome.wrong;
    for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) {
      if (!std::binary_search(entries.begin(), entries.end(), Present(*iterator))) ++outcome.wrong;
    }
  }
  outcome.verified = (*opened)->Verify();
  outcome.checksums = (*opened)->VerifyChecksums();
  return outcome;
}

std::string FileBytes(io::FileSystem& fs, const std::string& path) {
  Result<std::string> bytes = io::ReadFile(fs, path, 1 << 20);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  return bytes.ok() ? *bytes : "";
}

void Replace(io::SimFileSystem& fs, const std::string& path, const std::string& bytes) {
  EXPECT_TRUE(fs.Damage(path, [&](std::string* file) { *file = bytes; }).ok());
}

struct GoldenTable {
  explicit GoldenTable(Compression compression = Compression::kNone, bool verify_checksums = true)
      : fs(io::NewSimFileSystem()), entries(GoldenEntries()) {
    WriteTable(*fs, "/t-1.sst", 1, GoldenOptions(compression, verify_checksums), entries,
               GoldenTombstones());
    bytes = FileBytes(*fs, "/t-1.sst");
  }
  Outcome With(const std::string& changed) {
    Replace(*fs, "/t-1.sst", changed);
    return ReadEverything(*fs, entries);
  }

  std::unique_ptr<io::SimFileSystem> fs;
  std::vector<TestEntry> entries;
  std::string bytes;
};

TEST(TableDamage, AnUndamagedTableIsReadInFull) {
  for (const Compression compression :
       {Compression::kNone, Compression::kLz4, Compression::kZstd}) {
    GoldenTable table(compression);
    const Outcome outcome = table.With(table.bytes);
    EXPECT_TRUE(outcome.opened);
    EXPECT_TRUE(outcome.walked_all);
    EXPECT_EQ(outcome.failed + outcome.wrong, 0u);
    EXPECT_TRUE(outcome.verified.ok()) << outcome.verified.ToString();
    EXPECT_TRUE(outcome.checksums.ok()) << outcome.checksums.ToString();
  }
}

TEST(TableDamage, EveryChangedByteIsDetectedAndNoValueIsWrong) {
  for (const Compression compression :
       {Compression::kNone, Compression::kLz4, Compression::kZstd}) {
    GoldenTable table(compression);
    for (size_t at = 0; at < table.bytes.size(); ++at) {
      std::string changed = table.bytes;
      changed[at] = static_cast<char>(changed[at] ^ (at % 3 == 0 ? 0x80 : at % 3 == 1 ? 1 : 0xff));
      const Outcome outcome = table.With(changed);
      ASSERT_EQ(outcome.wrong, 0u) << "byte " << at;
      ASSERT_FALSE(outcome.opened && outcome.verified.ok()) << "byte " << at;
      ASSERT_FALSE(outcome.opened && outcome.checksums.ok()) << "byte " << at;
    }
  }
}

TEST(TableDamage, EveryTruncationAndEveryAddedByteIsRefused) {
  GoldenTable table;
  for (size_t size = 0; size < table.bytes.size(); ++size) {
    ASSERT_FALSE(table.With(table.bytes.substr(0, size)).opened) << size << " bytes";
  }
  EXPECT_FALSE(table.With(table.bytes + '\0').opened);
  EXPECT_FALSE(table.With(table.bytes + table.bytes).opened);
}

TEST(TableDamage, WithoutChecksumsChangedBytesAreReadWithinBounds) {
  GoldenTable table(Compression::kNone, false);
  uint64_t refused = 0;
  for (size_t at = 0; at < table.bytes.size(); ++at) {
    std::string changed = table.bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0xff);
    const Outcome outcome = table.With(changed);
    if (!outcome.opened || !outcome.verified.ok()) ++refused;
    EXPECT_EQ(outcome.checksums.ok(), outcome.verified.ok()) << "there are none to go by";
  }
  EXPECT_GT(refused, table.bytes.size() / 20);
}

// Returns the places of the data blocks of a table file: offset and size.
std::vector<std::pair<uint64_t, uint64_t>> BlocksOf(const std::string& bytes) {
  const Result<Footer> footer =
      DecodeFooter(Slice(bytes).substr(bytes.size() - kFooterBytes), bytes.size(), 1);
  EXPECT_TRUE(footer.ok());
  std::vector<std::pair<uint64_t, uint64_t>> blocks;
  base::ByteReader reader(Slice(bytes).substr(footer->index_offset(), footer->index_bytes));
  uint64_t offset = 0;
  for (uint64_t i = 0; i < footer->block_count; ++i) {
    uint64_t size = 0;
    Slice separator;
    EXPECT_TRUE(reader.Varint(&size) && reader.LengthPrefixed(&separator));
    blocks.emplace_back(offset, size / 2);
    offset += size / 2;
  }
  return blocks;
}

// Tables of equal shape: blocks of one have the sizes of those of the other.
std::vector<TestEntry> Uniform(char value) {
  std::vector<TestEntry> entries;
  for (int i = 100; i < 200; ++i) {
    entries.push_back(
        {"key" + std::to_string(i), 50, log::RecordType::kPut, std::string(40, value)});
  }
  return entries;
}

TEST(TableDamage, BlocksSwappedWithinATableAreDetected) {
  GoldenTable table;
  table.entries = Uniform('v');
  ASSERT_TRUE(table.fs->Unlink("/t-1.sst").ok());
  WriteTable(*table.fs, "/t-1.sst", 1, GoldenOptions(Compression::kNone, true), table.entries);
  const std::string bytes = FileBytes(*table.fs, "/t-1.sst");
  const auto blocks = BlocksOf(bytes);
  uint64_t swaps = 0;
  for (size_t a = 0; a < blocks.size(); ++a) {
    for (size_t b = a + 1; b < blocks.size(); ++b) {
      if (blocks[a].second != blocks[b].second) continue;
      std::string changed = bytes;
      changed.replace(blocks[a].first, blocks[a].second, bytes, blocks[b].first, blocks[b].second);
      changed.replace(blocks[b].first, blocks[b].second, bytes, blocks[a].first, blocks[a].second);
      const Outcome outcome = table.With(changed);
      ++swaps;
      EXPECT_TRUE(outcome.opened);
      EXPECT_EQ(outcome.wrong, 0u);
      EXPECT_GT(outcome.failed, 0u);
      EXPECT_LT(outcome.failed, table.entries.size()) << "other blocks stay readable";
      EXPECT_EQ(outcome.verified.code(), Code::kCorruption);
    }
  }
  EXPECT_GT(swaps, 3u);
}

TEST(TableDamage, BlocksOfAnotherTableAtTheSamePlaceAreDetected) {
  const auto fs = io::NewSimFileSystem();
  const StorageOptions options = GoldenOptions(Compression::kNone, true);
  const std::vector<TestEntry> entries = Uniform('v');
  WriteTable(*fs, "/t-1.sst", 1, options, entries);
  const std::string bytes = FileBytes(*fs, "/t-1.sst");
  // Another SSID with the same file id, and the same SSID with another file id.
  for (const auto& [ssid, file_id] : {std::pair{2, kTestFileId + 1}, std::pair{1, kTestFileId}}) {
    auto builder =
        TableBuilder::Create(*fs, "/other", static_cast<uint64_t>(ssid), file_id, options);
    ASSERT_TRUE(builder.ok());
    for (const TestEntry& entry : Uniform('w')) {
      ASSERT_TRUE((*builder)->Add(entry.key, entry.type, entry.value, entry.lsn).ok());
    }
    ASSERT_TRUE((*builder)->Finish().ok());
    const std::string other = FileBytes(*fs, "/other");
    ASSERT_EQ(other.size(), bytes.size());
    for (const auto& [offset, size] : BlocksOf(bytes)) {
      std::string changed = bytes;
      changed.replace(offset, size, other, offset, size);
      Replace(*fs, "/t-1.sst", changed);
      const Outcome outcome = ReadEverything(*fs, entries);
      EXPECT_EQ(outcome.wrong, 0u);
      EXPECT_GT(outcome.failed, 0u);
      EXPECT_EQ(outcome.verified.code(), Code::kCorruption);
    }
    ASSERT_TRUE(fs->Unlink("/other").ok());
  }
}

TEST(TableDamage, ATableUnderAnotherNameIsRefused) {
  GoldenTable table;
  const auto opened = Table::Open(*table.fs, "/t-1.sst", 2, StorageOptions(), NewBlockCache(0));
  EXPECT_EQ(opened.status().code(), Code::kCorruption);
  EXPECT_NE(opened.status().message().find("SSID 1"), std::string::npos)
      << opened.status().ToString();
  const auto absent = Table::Open(*table.fs, "/t-2.sst", 2, StorageOptions(), NewBlockCache(0));
  EXPECT_EQ(absent.status().code(), Code::kNotFound);
}

TEST(TableDamage, TheMessageNamesFileBlockAndOffset) {
  GoldenTable table;
  const auto [offset, size] = BlocksOf(table.bytes)[1];
  std::string changed = table.bytes;
  changed[offset + 3] = static_cast<char>(changed[offset + 3] ^ 1);
  const Outcome outcome = table.With(changed);
  for (const Status& status : {outcome.verified, outcome.walked}) {
    EXPECT_NE(status.message().find("/t-1.sst"), std::string::npos) << status.ToString();
    EXPECT_NE(status.message().find("data block 1 "), std::string::npos) << status.ToString();
    EXPECT_NE(status.message().find("offset " + std::to_string(offset)), std::string::npos);
  }
}

// Rewrites the checksum of the part at [offset, offset + size), as a forger would.
void Forge(std::string* bytes, base::ChecksumKind kind, uint64_t offset, uint64_t size) {
  const uint64_t identity = TableIdentity(kTestFileId + 1, 1);
  const Slice part = Slice(*bytes).substr(offset, size - kChecksumBytes);
  base::StoreLe(bytes->data() + offset + part.size(), PartChecksum(kind, identity, offset, part));
}

TEST(TableDamage, ForgedBlocksAreReadWithinBounds) {
  GoldenTable table;
  uint64_t refused = 0;
  for (const auto& [offset, size] : BlocksOf(table.bytes)) {
    for (uint64_t at = offset; at < offset + size - kChecksumBytes; ++at) {
      std::string changed = table.bytes;
      changed[at] = static_cast<char>(changed[at] ^ 0x81);
      Forge(&changed, base::ChecksumKind::kDataBlock, offset, size);
      if (!table.With(changed).verified.ok()) ++refused;
    }
  }
  EXPECT_GT(refused, 100u);
}

TEST(TableDamage, VerifyFindsATagThatHidesItsKey) {
  GoldenTable table;
  const auto [offset, size] = BlocksOf(table.bytes)[0];
  std::string changed = table.bytes;
  changed[offset + 16] = static_cast<char>(changed[offset + 16] ^ 1);
  Forge(&changed, base::ChecksumKind::kDataBlock, offset, size);
  const Outcome outcome = table.With(changed);
  EXPECT_EQ(outcome.wrong, 1u) << "a checksum that holds: the key is absent";
  EXPECT_EQ(outcome.verified.code(), Code::kCorruption);
  EXPECT_NE(outcome.verified.message().find("tag"), std::string::npos);
  EXPECT_TRUE(outcome.checksums.ok()) << "which is all that it looks at";
}

TEST(TableDamage, ForgedIndexFilterAndPropertiesAreReadWithinBounds) {
  GoldenTable table;
  const Footer footer = *DecodeFooter(Slice(table.bytes).substr(table.bytes.size() - kFooterBytes),
                                      table.bytes.size(), 1);
  const std::vector<std::tuple<base::ChecksumKind, uint64_t, uint64_t>> parts = {
      {base::ChecksumKind::kIndexBlock, footer.index_offset(), footer.index_bytes},
      {base::ChecksumKind::kFilterBlock, footer.filter_offset(), footer.filter_bytes},
      {base::ChecksumKind::kProperties, footer.properties_offset(), footer.properties_bytes}};
  uint64_t refused = 0;
  for (const auto& [kind, offset, size] : parts) {
    for (uint64_t at = offset; at < offset + size - kChecksumBytes; ++at) {
      for (const int change : {1, 0x80, 0x7f}) {
        std::string changed = table.bytes;
        changed[at] = static_cast<char>(changed[at] ^ change);
        Forge(&changed, kind, offset, size);
        const Outcome outcome = table.With(changed);
        if (!outcome.opened || !outcome.verified.ok()) ++refused;
      }
    }
  }
  EXPECT_GT(refused, 200u);
}

// On the real file system, where small reads are copied from a mapping.
TEST(TableDamage, CuttingAnOpenTableShortIsCorruptionAndTheProgramLives) {
  const test::TempDirectory directory;
  const std::string path = directory / "t-1.sst";
  io::FileSystem& fs = io::PosixFileSystem();
  std::vector<TestEntry> entries;
  for (uint64_t i = 1000; i < 3000; ++i) {
    entries.push_back({"key " + std::to_string(i), i, log::RecordType::kPut,
                       std::string(60, static_cast<char>(i))});
  }
  // Between pages, and within one, whose rest then reads as zeros.
  for (const uint64_t kept_bytes : {40'960u, 5'000u}) {
    const uint64_t file_bytes = WriteTable(fs, path, 1, StorageOptions(), entries).file_bytes;
    ASSERT_GT(file_bytes, 2 * kept_bytes);
    const auto opened = Table::Open(fs, path, 1, StorageOptions(), NewBlockCache(1 << 20));
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    const base::EpochGuard guard;
    LookupResult found;  // brings in the index
    ASSERT_TRUE((*opened)->Get("absent", base::HashKey("absent"), UINT64_MAX, &found).ok());
    std::filesystem::resize_file(path, kept_bytes);
    Outcome outcome;
    CheckGets(**opened, entries, &outcome);
    EXPECT_EQ(outcome.wrong, 0u);
    EXPECT_GT(outcome.failed, 0u);
    EXPECT_LT(outcome.failed, entries.size());
    const TestEntry& last = entries.back();
    const Status status = (*opened)->Get(last.key, base::HashKey(last.key), last.lsn, &found);
    EXPECT_EQ(status.code(), Code::kCorruption);
    EXPECT_NE(status.message().find(path + " ends at offset "), std::string::npos)
        << status.ToString();
    ASSERT_TRUE(fs.Unlink(path).ok());
  }
}

struct GoldenFile {
  const char* name;
  Compression compression;
  bool verify_checksums;
};
constexpr GoldenFile kGoldenFiles[] = {{"v1_raw.sst", Compression::kNone, true},
                                       {"v1_unchecked.sst", Compression::kNone, false},
                                       {"v1_lz4.sst", Compression::kLz4, true},
                                       {"v1_zstd.sst", Compression::kZstd, true}};

TEST(TableGolden, FilesOfVersion1ReadTheSame) {
  for (const GoldenFile& golden : kGoldenFiles) {
    SCOPED_TRACE(golden.name);
    const auto fs = io::NewSimFileSystem();
    const std::string bytes = test::GoldenBytes(std::string(QUIRE_TABLE_GOLDEN "/") + golden.name);
    ASSERT_TRUE((*fs->Open("/t-1.sst", io::FileOpenMode::kCreate))->WriteAt(0, bytes).ok());
    const Outcome outcome = ReadEverything(*fs, GoldenEntries());
    EXPECT_TRUE(outcome.opened && outcome.walked_all);
    EXPECT_EQ(outcome.wrong + outcome.failed, 0u);
    EXPECT_TRUE(outcome.verified.ok()) << outcome.verified.ToString();
    const auto opened = Table::Open(*fs, "/t-1.sst", 1, StorageOptions(), NewBlockCache(0));
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    ASSERT_EQ((*opened)->range_tombstones().size(), GoldenTombstones().size());
    EXPECT_EQ((*opened)->CoveringTombstone("key/10", UINT64_MAX), 901u);
    EXPECT_EQ((*opened)->info().segments.at(0).segment_id, 3u);
  }
}

// Compressed bytes may change with the compressor's version; the rest may not.
TEST(TableGolden, TheBuilderStillWritesTheSameBytes) {
  for (const GoldenFile& golden : kGoldenFiles) {
    if (golden.compression != Compression::kNone) continue;
    SCOPED_TRACE(golden.name);
    const GoldenTable table(golden.compression, golden.verify_checksums);
    EXPECT_EQ(table.bytes, test::GoldenBytes(std::string(QUIRE_TABLE_GOLDEN "/") + golden.name));
  }
}

std::string Hex(const std::string& bytes) {
  std::string hex;
  for (const char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    hex += digits;
  }
  return hex;
}

// The worked example of docs/format/table.md: SSData, SSIndex, properties, footer.
TEST(TableGolden, TheExampleOfTheFormatPageIsWhatTheBuilderWrites) {
  const auto fs = io::NewSimFileSystem();
  StorageOptions options;
  options.bloom_bits_per_key = 0;
  auto builder = TableBuilder::Create(*fs, "/t-3.sst", 3, 0x1122334455667788, options);
  ASSERT_TRUE(builder.ok());
  ASSERT_TRUE((*builder)->Add("k/a", log::RecordType::kPut, "one", 1000).ok());
  ASSERT_TRUE((*builder)->Add("k/b", log::RecordType::kDelete, "", 1300).ok());
  ASSERT_TRUE((*builder)->AddRangeTombstone({"x", "y", 1200}).ok());
  ASSERT_TRUE((*builder)->Finish().ok());
  EXPECT_EQ(Hex(FileBytes(*fs, "/t-3.sst")),
            "0200000002000200e80300000000000049c4000006006b2f0900616f6e650aac"
            "0262009e760a48bf5ab7e5"
            "56036b2f629f450e77f69588b7"
            "02020209e807940a036b2f610179000101780179b009e14c967c64b56af5"
            "5155495245535354010000000000000003000000000000008877665544332211"
            "2b000000000000000d0000000000000000000000000000001e00000000000000"
            "0100000000000000bcab82604d434a16");
}

// The same page's block of entries that are alike.
TEST(TableGolden, TheExampleOfAlikeEntriesIsWhatTheBuilderWrites) {
  const auto fs = io::NewSimFileSystem();
  StorageOptions options;
  options.bloom_bits_per_key = 0;
  auto builder = TableBuilder::Create(*fs, "/t-3.sst", 3, 0x1122334455667788, options);
  ASSERT_TRUE(builder.ok());
  ASSERT_TRUE((*builder)->Add("p1", log::RecordType::kPut, "xy", 7).ok());
  ASSERT_TRUE((*builder)->Add("p2", log::RecordType::kPut, "zw", 7).ok());
  ASSERT_TRUE((*builder)->Finish().ok());
  EXPECT_EQ(Hex(FileBytes(*fs, "/t-3.sst").substr(0, 35)),
            "02000000010000000700000000000000c546"
            "0970317879327a770096a0ac580306a0d2");
}

}  // namespace
}  // namespace quire::table::table_damage_test
