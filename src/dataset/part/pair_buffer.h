/// Pairs in memory that are about to become one main table.
///
/// Layer      dataset
/// Source     FilterKV, CMU-PDL-19-104, section 3.3 (main tables hold complete pairs)
/// Threads    one at a time
#pragma once

#include <cstdint>
#include <memory>

#include "quire/slice.h"
#include "quire/status.h"
#include "table/table.h"

namespace quire::dataset {

/// Returns the number of a key's version in a main table; it contains the rank that put the pair.
constexpr uint64_t LsnOf(uint32_t rank) {
  return uint64_t{rank} + 1;
}
constexpr uint32_t RankOf(uint64_t lsn) {
  return static_cast<uint32_t>(lsn - 1);
}

class PairBuffer {
 public:
  /// A buffer of `capacity` bytes for pairs and the entries that find them; it takes more only for
  /// a single larger pair. The memory is allocated at once, but pages that no pair has touched take
  /// no memory yet.
  explicit PairBuffer(uint64_t capacity) : capacity_(capacity) {}
  /// The bytes of a pair in addition to its key and value.
  static constexpr uint64_t kExtraBytes = 28;

  /// Returns whether a pair of that size still fits. An empty buffer accepts any pair.
  bool Fits(uint64_t key_size, uint64_t value_size) const {
    return empty() || used() + PairBytes(key_size, value_size) <= capacity_;
  }
  /// Reserves room for pairs that take `bytes` together, kExtraBytes for each included: they must
  /// fit, or the buffer must be empty.
  void Reserve(uint64_t bytes);
  /// Adds a pair, for formats in which the later pair of a key and rank wins.
  void Add(Slice key, Slice value, uint32_t rank);
  bool empty() const { return count_ == 0; }
  size_t count() const { return count_; }
  uint64_t used() const { return end_ + count_ * sizeof(Entry); }
  /// Sorts the pairs and adds them to the table.
  Status AddTo(table::TableBuilder* table);
  /// Removes all pairs; keeps the memory.
  void Clear();

 private:
  struct Entry {
    uint64_t prefix;  ///< the beginning of the key: decides most comparisons
    uint64_t at;      ///< in bytes_; rising in the order of Add
  };
  struct Pair {
    uint32_t rank;
    Slice key;
    Slice value;
  };
  static constexpr uint64_t kHeadBytes = 12;  // u32 rank, u32 key size, u32 value size
  static_assert(kExtraBytes == sizeof(Entry) + kHeadBytes);
  static uint64_t PairBytes(uint64_t key_size, uint64_t value_size) {
    return kExtraBytes + key_size + value_size;
  }
  Pair PairAt(uint64_t at) const;
  /// Returns the entry that was added last; earlier ones follow it.
  Entry* entries() const { return reinterpret_cast<Entry*>(bytes_.get() + room_) - count_; }

  const uint64_t capacity_;
  std::unique_ptr<char[]> bytes_;  ///< pairs from the front, entries from the back
  uint64_t room_ = 0;              ///< a multiple of an entry's size
  uint64_t end_ = 0;               ///< of the pairs
  uint64_t count_ = 0;
};

}  // namespace quire::dataset
