/// Helpers of the tests of MemTables: one with its own memory, and the content of an iterator.
///
/// Layer      lsm (tests only)
/// Threads    as the MemTable's
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/hash/hash.h"
#include "io/files/file_system.h"
#include "lsm/memtable/memtable.h"
#include "lsm/memtable/sorted_view.h"

namespace quire::lsm {

using log::RecordType;
using State = table::KeyState;

constexpr uint64_t kGeneration = 77;
constexpr uint64_t kBaseLsn = 1'000'000;

// Runs something between the storing of a record and its way into the index.
class StoreHook : public io::MappedFile {
 public:
  StoreHook() { observe_stores_ = true; }
  Status Sync(uint64_t, uint64_t) override { return Status(); }
  void Prefault(uint64_t, uint64_t) override {}
  const std::string& path() const override { return path_; }
  std::function<void()> on_stored;

 private:
  void OnStored(uint64_t, uint64_t) override {
    if (on_stored) std::exchange(on_stored, {})();
  }
  std::string path_ = "memory";
};

// A MemTable with memory of its own.
class Holder {
 public:
  explicit Holder(uint64_t segment_bytes = 1 << 20, StoreHook* hook = nullptr)
      : bytes_(segment_bytes),
        index_(Aligned(IndexBytes(segment_bytes))),
        data_(Aligned(segment_bytes)),
        table_(std::make_unique<MemTable>(index_.get(), data_.get(), bytes_, kGeneration, kBaseLsn,
                                          hook)) {}
  MemTable& operator*() { return *table_; }
  MemTable* operator->() { return table_.get(); }
  char* data() { return data_.get(); }
  /// For one that looks at it no more.
  void SpoilIndex() { std::memset(index_.get(), 0xA5, IndexBytes(bytes_)); }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  static std::unique_ptr<char, Free> Aligned(uint64_t size) {
    auto* memory = static_cast<char*>(std::aligned_alloc(4096, (size + 4095) / 4096 * 4096));
    std::memset(memory, 0xEE, size);  // whatever was there before
    return std::unique_ptr<char, Free>(memory);
  }

  uint64_t bytes_;
  std::unique_ptr<char, Free> index_;
  std::unique_ptr<char, Free> data_;
  std::unique_ptr<MemTable> table_;
};

inline table::LookupResult Get(const MemTable& table, Slice key, uint64_t snapshot = kMaxLsn) {
  return table.Get(key, base::HashKey(key), snapshot);
}

inline uint64_t Put(MemTable& table, Slice key, Slice value) {
  uint64_t lsn = 0;
  EXPECT_TRUE(table.Add({RecordType::kPut, key, value}, &lsn));
  return lsn;
}

// Everything an iterator gives, as text, forward.
struct SeenEntry {
  std::string key;
  std::string value;
  RecordType type;
  uint64_t lsn;
  bool operator==(const SeenEntry&) const = default;
};

inline SeenEntry At(const table::EntryIterator& it) {
  return {std::string(it.key()), std::string(it.value()), it.type(), it.lsn()};
}

inline std::vector<SeenEntry> Forward(const SortedView& view, bool newest_only) {
  std::vector<SeenEntry> entries;
  const auto it = view.NewIterator(newest_only);
  for (it->SeekToFirst(); it->Valid(); it->Next()) entries.push_back(At(*it));
  return entries;
}

inline std::vector<SeenEntry> Backward(const SortedView& view, bool newest_only) {
  std::vector<SeenEntry> entries;
  const auto it = view.NewIterator(newest_only);
  for (it->SeekToLast(); it->Valid(); it->Prev()) entries.push_back(At(*it));
  std::reverse(entries.begin(), entries.end());
  return entries;
}

}  // namespace quire::lsm
