#include "lsm/version/manifest.h"

#include <gtest/gtest.h>

#include "io/sim/sim_file_system.h"

namespace quire::lsm::manifest_test {
namespace {

table::TableInfo SomeTable(uint64_t ssid, const std::string& smallest, const std::string& largest) {
  table::TableInfo table;
  table.ssid = ssid;
  table.file_id = 0x1112131415161718;
  table.file_bytes = 4096;
  table.entry_count = 1;
  table.key_count = 1;
  table.raw_bytes = 2;
  table.min_lsn = 4096;
  table.max_lsn = 4096;
  table.smallest_key = smallest;
  table.largest_key = largest;
  return table;
}

Manifest SomeManifest() {
  Manifest manifest;
  manifest.store_id = 0x0102030405060708;
  manifest.epoch = 3;
  manifest.edition = 9;
  manifest.flushed_lsn = 65536;
  manifest.next_ssid = 2;
  manifest.boot_id = 0x2122232425262728;
  manifest.runs = {{SomeTable(1, "a", "a")}};
  manifest.log_segments = {{0, 0x3132333435363738}};
  return manifest;
}

std::string Hex(Slice bytes) {
  std::string hex;
  for (const char byte : bytes) {
    static const char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<uint8_t>(byte) >> 4];
    hex += kDigits[static_cast<uint8_t>(byte) & 15];
  }
  return hex;
}

TEST(Manifest, KeepsEveryField) {
  Manifest manifest = SomeManifest();
  manifest.next_ssid = 9;
  manifest.next_value_segment_id = 7;
  manifest.value_segment_floor = 6;
  manifest.options.memtable_bytes = 65536;
  manifest.options.wal = WalMode::kSync;
  manifest.options.compression = Compression::kZstd;
  manifest.options.compaction = CompactionPolicy::kEveryNth;
  manifest.runs = {{SomeTable(3, "a", "b"), SomeTable(4, "b", std::string("c\0d", 3))},
                   {SomeTable(2, "", "z")}};
  manifest.runs[0][0].segments = {{1, 10}, {2, 20}};
  manifest.runs[0][1].tombstone_count = 5;
  manifest.runs[0][1].range_tombstone_count = 2;
  manifest.value_segments = {{1, 100}, {6, 0}};
  manifest.boot_id = 77;
  manifest.log_segments = {{0, 11}, {3, 12}};
  const Result<Manifest> read = DecodeManifest(EncodeManifest(manifest), "m");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->store_id, manifest.store_id);
  EXPECT_EQ(read->epoch, 3u);
  EXPECT_EQ(read->edition, 9u);
  EXPECT_EQ(read->flushed_lsn, 65536u);
  EXPECT_EQ(read->next_ssid, 9u);
  EXPECT_EQ(read->next_value_segment_id, 7u);
  EXPECT_EQ(read->value_segment_floor, 6u);
  EXPECT_EQ(read->options.memtable_bytes, 65536u);
  EXPECT_EQ(read->options.wal, WalMode::kSync);
  EXPECT_EQ(read->options.compression, Compression::kZstd);
  EXPECT_EQ(read->options.compaction, CompactionPolicy::kEveryNth);
  ASSERT_EQ(read->runs.size(), 2u);
  ASSERT_EQ(read->runs[0].size(), 2u);
  EXPECT_EQ(read->runs[0][1].largest_key, std::string("c\0d", 3));
  EXPECT_EQ(read->runs[0][1].tombstone_count, 5u);
  EXPECT_EQ(read->runs[0][1].range_tombstone_count, 2u);
  EXPECT_EQ(read->runs[0][0].file_id, 0x1112131415161718u);
  ASSERT_EQ(read->runs[0][0].segments.size(), 2u);
  EXPECT_EQ(read->runs[0][0].segments[1].bytes, 20u);
  EXPECT_EQ(read->runs[1][0].smallest_key, "");
  ASSERT_EQ(read->value_segments.size(), 2u);
  EXPECT_EQ(read->value_segments[1].id, 6u);
  EXPECT_EQ(read->boot_id, 77u);
  ASSERT_EQ(read->log_segments.size(), 2u);
  EXPECT_EQ(read->log_segments[1].pool_slot, 3u);
  EXPECT_EQ(read->log_segments[1].generation, 12u);
  EXPECT_EQ(EncodeManifest(*read), EncodeManifest(manifest));
}

// The example of docs/format/manifest.md: these bytes never change for format 1.
TEST(Manifest, EncodesTheDocumentedExample) {
  EXPECT_EQ(Hex(EncodeManifest(SomeManifest())),
            "514952454d414e4601000000000000000807060504030201"
            "030000000000000009000000000000004a00000000000000"
            "4aa2e5aa82b4a49a80800402010128272625242322218080"
            "8020020180088080802080200a0080808080010001010118"
            "171615141312118020010100000280208020016101610000"
            "01003837363534333231");
}

TEST(Manifest, RefusesEveryFlippedByteAndEveryLength) {
  const std::string good = EncodeManifest(SomeManifest());
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x40);
    const Result<Manifest> read = DecodeManifest(bad, "m");
    ASSERT_FALSE(read.ok()) << "byte " << i;
    EXPECT_TRUE(read.status().code() == Code::kCorruption ||
                read.status().code() == Code::kUnsupported);
    EXPECT_FALSE(DecodeManifest(Slice(good).substr(0, i), "m").ok()) << "length " << i;
  }
  EXPECT_FALSE(DecodeManifest(good + "x", "m").ok());
}

TEST(Manifest, RefusesTablesThatCannotBe) {
  Manifest manifest = SomeManifest();
  manifest.next_ssid = 1;
  EXPECT_EQ(DecodeManifest(EncodeManifest(manifest), "m").status().code(), Code::kCorruption);
  manifest = SomeManifest();
  manifest.next_ssid = 3;
  manifest.runs[0].push_back(SomeTable(2, "", "b"));
  EXPECT_EQ(DecodeManifest(EncodeManifest(manifest), "m").status().code(), Code::kCorruption);
  manifest = SomeManifest();
  manifest.runs.emplace_back();
  EXPECT_EQ(DecodeManifest(EncodeManifest(manifest), "m").status().code(), Code::kCorruption);
  manifest = SomeManifest();
  manifest.value_segments = {{1, 1}};
  EXPECT_EQ(DecodeManifest(EncodeManifest(manifest), "m").status().code(), Code::kCorruption);
}

TEST(Manifest, SaysThatANewerFormatNeedsANewerQuire) {
  std::string bytes = EncodeManifest(SomeManifest());
  bytes[8] = 2;
  const Status status = DecodeManifest(bytes, "dir/MANIFEST").status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("dir/MANIFEST"), std::string::npos);
}

TEST(Manifest, IsNotReplacedByAnOrphanOfAnEarlierEpoch) {
  const std::unique_ptr<io::SimFileSystem> fs = io::NewSimFileSystem();
  ASSERT_TRUE(fs->MakeDirectory("d").ok());
  EXPECT_EQ(ReadManifest(*fs, "d").status().code(), Code::kNotFound);
  Manifest ours = SomeManifest();
  ASSERT_TRUE(CreateManifest(*fs, "d", ours).ok());
  ours.edition = 10;
  ASSERT_TRUE(PublishManifest(*fs, "d", ours, ours.epoch).ok());
  Manifest theirs = ours;
  theirs.epoch = 4;
  theirs.edition = 11;
  ASSERT_TRUE(PublishManifest(*fs, "d", theirs, 3).ok());
  ours.edition = 12;
  const Status refused = PublishManifest(*fs, "d", ours, ours.epoch);
  EXPECT_EQ(refused.code(), Code::kBusy);
  EXPECT_NE(refused.message().find("taken over"), std::string::npos);
  EXPECT_EQ(ReadManifest(*fs, "d")->edition, 11u);
}

TEST(Manifest, IsReplacedOnlyByItsSuccessor) {
  const std::unique_ptr<io::SimFileSystem> fs = io::NewSimFileSystem();
  ASSERT_TRUE(fs->MakeDirectory("d").ok());
  Manifest ours = SomeManifest();
  ASSERT_TRUE(CreateManifest(*fs, "d", ours).ok());
  const uint64_t stored = ours.edition;
  // Two that took over at once, or a writer that does not know what became of its last edition.
  for (const uint64_t edition : {stored - 1, stored, stored + 2}) {
    ours.edition = edition;
    EXPECT_EQ(PublishManifest(*fs, "d", ours, ours.epoch).code(), Code::kBusy) << edition;
    EXPECT_EQ(ReadManifest(*fs, "d")->edition, stored);
  }
  ours.edition = stored + 1;
  EXPECT_TRUE(PublishManifest(*fs, "d", ours, ours.epoch).ok());
}

// Another database, that was made where this one's directory was: the same epoch and edition.
TEST(Manifest, IsNotReplacedByAnotherStore) {
  const std::unique_ptr<io::SimFileSystem> fs = io::NewSimFileSystem();
  ASSERT_TRUE(fs->MakeDirectory("d").ok());
  Manifest ours = SomeManifest();
  Manifest theirs = ours;
  ++theirs.store_id;
  ASSERT_TRUE(CreateManifest(*fs, "d", theirs).ok());
  EXPECT_TRUE(CheckHeld(*fs, "d", theirs.store_id, theirs.epoch).ok());
  ++ours.edition;
  for (const Status& refused : {PublishManifest(*fs, "d", ours, ours.epoch),
                                CheckHeld(*fs, "d", ours.store_id, ours.epoch)}) {
    EXPECT_EQ(refused.code(), Code::kBusy);
    EXPECT_NE(refused.message().find("d/MANIFEST"), std::string::npos) << refused.message();
    EXPECT_NE(refused.message().find("moved or removed"), std::string::npos) << refused.message();
  }
  EXPECT_EQ(ReadManifest(*fs, "d")->store_id, theirs.store_id);
}

TEST(Manifest, IsHeldByItsLastOpenerAlone) {
  const std::unique_ptr<io::SimFileSystem> fs = io::NewSimFileSystem();
  ASSERT_TRUE(fs->MakeDirectory("d").ok());
  const Manifest stored = SomeManifest();
  EXPECT_EQ(CheckHeld(*fs, "d", stored.store_id, stored.epoch).code(), Code::kNotFound);
  ASSERT_TRUE(CreateManifest(*fs, "d", stored).ok());
  EXPECT_TRUE(CheckHeld(*fs, "d", stored.store_id, stored.epoch).ok());
  const Status orphan = CheckHeld(*fs, "d", stored.store_id, stored.epoch - 1);
  EXPECT_EQ(orphan.code(), Code::kBusy);
  EXPECT_NE(orphan.message().find("taken over"), std::string::npos) << orphan.message();
}

TEST(Manifest, ParsesNamesExactly) {
  uint64_t number = 0;
  EXPECT_TRUE(ParseNumberedName("t-17.sst", "t-", ".sst", &number));
  EXPECT_EQ(number, 17u);
  EXPECT_EQ(TableName(17), "t-17.sst");
  EXPECT_TRUE(ParseNumberedName("t-18446744073709551615.sst", "t-", ".sst", &number));
  EXPECT_EQ(number, UINT64_MAX);
  for (const char* name : {"t-.sst", "t-017.sst", "t-1x.sst", "t-18446744073709551616.sst",
                           "t-1.sst.tmp", "x-1.sst", "t--1.sst", ""}) {
    EXPECT_FALSE(ParseNumberedName(name, "t-", ".sst", &number)) << name;
  }
}

TEST(Manifest, ACopyDiffersInItsStoreIdAlone) {
  const std::unique_ptr<io::SimFileSystem> fs = io::NewSimFileSystem();
  ASSERT_TRUE(fs->MakeDirectory("/db").ok());
  const Manifest manifest = SomeManifest();
  ASSERT_TRUE(CreateManifest(*fs, "/db", manifest).ok());
  ASSERT_TRUE(GiveNewStoreId(*fs, "/db").ok());
  Result<Manifest> copy = ReadManifest(*fs, "/db");
  ASSERT_TRUE(copy.ok()) << copy.status().ToString();
  EXPECT_NE(copy->store_id, manifest.store_id);
  copy->store_id = manifest.store_id;
  EXPECT_EQ(EncodeManifest(*copy), EncodeManifest(manifest));
  EXPECT_EQ(GiveNewStoreId(*fs, "/none").code(), Code::kNotFound);
}

}  // namespace
}  // namespace quire::lsm::manifest_test
