/// Helpers of the tests of tables: entries from a seed, tables from entries, and a walk that reads
/// a table back.
///
/// Layer      table (tests)
/// Threads    one thread
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/core/random.h"
#include "base/hash/hash.h"
#include "io/sim/sim_file_system.h"
#include "table/block_cache.h"
#include "table/table.h"

namespace quire::table {

constexpr uint64_t kTestFileId = 0x1234567890abcdef;

/// The type of the version that a lookup found.
inline log::RecordType TypeOf(KeyState state) {
  if (state == KeyState::kDeleted) return log::RecordType::kDelete;
  return state == KeyState::kValueRef ? log::RecordType::kValueRef : log::RecordType::kPut;
}

/// One version, owned.
struct TestEntry {
  std::string key;
  uint64_t lsn = 0;
  log::RecordType type = log::RecordType::kPut;
  std::string value = {};

  friend bool operator==(const TestEntry&, const TestEntry&) = default;
  /// The order of tables.
  friend bool operator<(const TestEntry& a, const TestEntry& b) {
    return std::tie(a.key, b.lsn) < std::tie(b.key, a.lsn);
  }
};

inline std::ostream& operator<<(std::ostream& out, const TestEntry& entry) {
  return out << "{key of " << entry.key.size() << " bytes "
             << testing::PrintToString(entry.key.substr(0, 40)) << ", lsn " << entry.lsn
             << ", type " << static_cast<int>(entry.type) << ", value of " << entry.value.size()
             << " bytes}";
}

struct EntryShape {
  uint64_t key_count = 300;
  uint64_t key_bytes_max = 12;    ///< usual keys
  uint64_t value_bytes_max = 60;  ///< usual values
  uint64_t versions_max = 3;      ///< of one key
  uint64_t giants = 0;            ///< keys of 64 KiB, values of 100 KiB
};

inline std::string RandomBytes(base::Random* random, uint64_t size) {
  // Few letters, NUL and 0xff among them: shared prefixes and equal words are common.
  static constexpr char kLetters[] = {'\0', '\1', 'a', 'b', '\x7f', '\x80', '\xff'};
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = kLetters[random->Below(sizeof kLetters)];
  return bytes;
}

inline std::string ValueRefBytes(uint64_t segment_id, uint32_t key_size, uint32_t value_size) {
  const log::ValueRef reference = {segment_id, 4096, 77, value_size, key_size};
  return std::string(reinterpret_cast<const char*>(&reference), sizeof reference);
}

/// Entries in the order of tables, no two alike in key and LSN.
inline std::vector<TestEntry> RandomEntries(uint64_t seed, const EntryShape& shape) {
  base::Random random(seed);
  std::vector<TestEntry> entries;
  for (uint64_t i = 0; i < shape.key_count; ++i) {
    std::string key = RandomBytes(&random, 1 + random.Below(shape.key_bytes_max));
    if (i < shape.giants) key = RandomBytes(&random, log::kKeyBytesMax - random.Below(2));
    const uint64_t versions = 1 + random.Below(shape.versions_max);
    for (uint64_t version = 0; version < versions; ++version) {
      TestEntry entry{key, 100 + random.Below(1 << 20), log::RecordType::kPut, ""};
      if (random.OneIn(6)) {
        entry.type = log::RecordType::kDelete;
      } else if (random.OneIn(6)) {
        entry.type = log::RecordType::kValueRef;
        entry.value = ValueRefBytes(random.Below(4), static_cast<uint32_t>(key.size()), 5000);
      } else {
        entry.value = RandomBytes(&random, random.Below(shape.value_bytes_max + 1));
        if (i < shape.giants) entry.value = RandomBytes(&random, 100'000);
      }
      entries.push_back(std::move(entry));
    }
  }
  std::sort(entries.begin(), entries.end());
  const auto same = [](const TestEntry& a, const TestEntry& b) { return !(a < b) && !(b < a); };
  entries.erase(std::unique(entries.begin(), entries.end(), same), entries.end());
  return entries;
}

/// Builds a table with these entries; its info.
inline TableInfo FillTable(TableBuilder& builder, const std::vector<TestEntry>& entries,
                           const std::vector<RangeTombstone>& tombstones = {}) {
  for (const TestEntry& entry : entries) {
    const Status added = builder.Add(entry.key, entry.type, entry.value, entry.lsn);
    EXPECT_TRUE(added.ok()) << added.ToString();
  }
  for (const RangeTombstone& tombstone : tombstones) {
    EXPECT_TRUE(builder.AddRangeTombstone(tombstone).ok());
  }
  Result<TableInfo> info = builder.Finish();
  EXPECT_TRUE(info.ok()) << info.status().ToString();
  return info.ok() ? *info : TableInfo();
}

/// Writes a table with these entries; its info.
inline TableInfo WriteTable(io::FileSystem& fs, const std::string& path, uint64_t ssid,
                            const StorageOptions& options, const std::vector<TestEntry>& entries,
                            const std::vector<RangeTombstone>& tombstones = {}) {
  Result<std::unique_ptr<TableBuilder>> builder =
      TableBuilder::Create(fs, path, ssid, kTestFileId + ssid, options);
  EXPECT_TRUE(builder.ok()) << builder.status().ToString();
  return FillTable(**builder, entries, tombstones);
}

/// The content of the golden files and the fuzzer's seeds: every type, several blocks, versions of
/// one key across blocks.
inline std::vector<TestEntry> GoldenEntries() {
  std::vector<TestEntry> entries = {
      {std::string(1, '\0'), 7, log::RecordType::kPut, "NUL"},
      {"delete", 12, log::RecordType::kDelete},
      {"delete", 11, log::RecordType::kPut, "deleted"},
      {"empty", 13, log::RecordType::kPut, ""},
      {"large", 14, log::RecordType::kValueRef, ValueRefBytes(3, 5, 100'000)},
      {std::string(300, 'l'), 1ull << 40, log::RecordType::kPut, "long key"}};
  for (uint64_t i = 0; i < 12; ++i) {
    entries.push_back({"key/" + std::to_string(10 + i), 1000 + 100 * i, log::RecordType::kPut,
                       "value " + std::to_string(i * i) + std::string(20, '.')});
    entries.push_back({"versions", 5000 + i, log::RecordType::kPut,
                       std::string(200, static_cast<char>('a' + i))});
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

inline std::vector<RangeTombstone> GoldenTombstones() {
  return {{"a", "b", 900}, {"ab", "key/11", 901}};
}

inline StorageOptions GoldenOptions(Compression compression, bool verify_checksums) {
  StorageOptions options;
  options.block_bytes = 512;
  options.compression = compression;
  options.verify_checksums = verify_checksums;
  return options;
}

inline TestEntry Present(const EntryIterator& iterator) {
  return {std::string(iterator.key()), iterator.lsn(), iterator.type(),
          std::string(iterator.value())};
}

/// Everything the iterator gives from the beginning.
inline std::vector<TestEntry> ReadAll(EntryIterator* iterator) {
  std::vector<TestEntry> entries;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    entries.push_back(Present(*iterator));
  }
  return entries;
}

}  // namespace quire::table
