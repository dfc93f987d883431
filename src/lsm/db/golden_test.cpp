// The golden file of a manifest with something in each of its fields (docs/format/manifest.md).
#include <gtest/gtest.h>

#include <string>

#include "lsm/version/manifest.h"
#include "tests/support/golden.h"

namespace quire::lsm::golden_test {
namespace {

table::TableInfo Table(uint64_t ssid, const std::string& smallest, const std::string& largest) {
  table::TableInfo table;
  table.ssid = ssid;
  table.file_id = 0x1112131415161718;
  table.file_bytes = 4096 + ssid;
  table.entry_count = 30;
  table.key_count = 20;
  table.raw_bytes = 2000;
  table.min_lsn = 4096;
  table.max_lsn = 65000;
  table.tombstone_count = 5;
  table.range_tombstone_count = 2;
  table.smallest_key = smallest;
  table.largest_key = largest;
  table.segments = {{1, 10}, {2, 20}};
  return table;
}

Manifest Written() {
  Manifest manifest;
  manifest.store_id = 0x0102030405060708;
  manifest.epoch = 3;
  manifest.edition = 9;
  manifest.flushed_lsn = 65536;
  manifest.next_ssid = 9;
  manifest.next_value_segment_id = 7;
  manifest.value_segment_floor = 6;
  manifest.boot_id = 0x2122232425262728;
  // Each given here, so that other defaults are no other bytes.
  manifest.options.memtable_bytes = 1 << 20;
  manifest.options.flushing_queue_length = 3;
  manifest.options.wal = WalMode::kSync;
  manifest.options.value_separation_bytes_min = 5000;
  manifest.options.value_segment_bytes = 2 << 20;
  manifest.options.block_bytes = 8192;
  manifest.options.bloom_bits_per_key = 12;
  manifest.options.compression = Compression::kZstd;
  manifest.options.table_bytes_max = 3 << 20;
  manifest.options.compaction = CompactionPolicy::kEveryNth;
  manifest.runs = {{Table(3, "a", "b"), Table(4, "b", std::string("c\0d", 3))},
                   {Table(2, "", "z")}};
  manifest.value_segments = {{1, 4096}, {5, 0}};
  manifest.log_segments = {{0, 0x3132333435363738}, {2, 0x4142434445464748}};
  return manifest;
}

TEST(ManifestGolden, IsWrittenAndReadAsEver) {
  const std::string bytes = test::Golden(QUIRE_GOLDEN "/v1_manifest", EncodeManifest(Written()));
  const Result<Manifest> read = DecodeManifest(bytes, "MANIFEST");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->store_id, 0x0102030405060708u);
  EXPECT_EQ(read->edition, 9u);
  EXPECT_EQ(read->options.wal, WalMode::kSync);
  ASSERT_EQ(read->runs.size(), 2u);
  EXPECT_EQ(read->runs[0][1].largest_key, std::string("c\0d", 3));
  EXPECT_EQ(read->runs[1][0].file_bytes, 4098u);
  ASSERT_EQ(read->value_segments.size(), 2u);
  EXPECT_EQ(read->value_segments[1].id, 5u);
  ASSERT_EQ(read->log_segments.size(), 2u);
  EXPECT_EQ(read->log_segments[1].generation, 0x4142434445464748u);
}

}  // namespace
}  // namespace quire::lsm::golden_test
