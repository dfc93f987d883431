/// The layout of cuckoo tables in bytes, and the places of a key in a table: shared by building and
/// lookup.
///
/// Layer      filter
/// Encoding   docs/format/rankmap.md
/// Threads    pure functions
#pragma once

#include <cstddef>
#include <cstdint>

#include "filter/rank_map/spread.h"

namespace quire::filter {

constexpr int kPartialKeyBits = 4;
constexpr uint32_t kPartialKeys = (1u << kPartialKeyBits) - 1;  ///< 1 to this; 0: a free slot
constexpr uint32_t kSlotsPerCuckooBucket = 4;
constexpr uint32_t kCuckooTablesMax = 8;
constexpr size_t kCuckooHeaderBytes = 8;  ///< u32 table_count, u32 listed_count
constexpr size_t kCuckooSlackBytes = 8;   ///< behind the slots: they are read in words

inline uint64_t CuckooTableBytes(uint32_t bucket_count, int slot_bits) {
  const uint64_t bits =
      uint64_t{bucket_count} * kSlotsPerCuckooBucket * static_cast<uint64_t>(slot_bits);
  return (bits + 7) / 8;
}

/// A key's partial key and its first bucket in a table. Other() computes one of the two buckets
/// from the other one and the partial key alone, for any number of buckets.
struct CuckooPlace {
  CuckooPlace(uint64_t hash, uint32_t table, uint32_t bucket_count) {
    const uint64_t bits = Spread(hash + (table + 1) * kGoldenRatio);
    partial = static_cast<uint32_t>(bits % kPartialKeys) + 1;
    bucket = static_cast<uint32_t>((bits >> 32) * bucket_count >> 32);
  }
  static uint32_t Other(uint32_t bucket, uint32_t partial, uint32_t bucket_count) {
    const uint64_t sum = (Spread(partial) >> 32) * bucket_count >> 32;
    return static_cast<uint32_t>(sum >= bucket ? sum - bucket : sum + bucket_count - bucket);
  }

  uint32_t partial;
  uint32_t bucket;
};

}  // namespace quire::filter
