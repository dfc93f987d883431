/// The layout of a ribbon in bytes, and the place of a key in it: shared by building and lookup.
///
/// Layer      filter
/// Encoding   docs/format/rankmap.md
/// Threads    pure functions
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/text/coding.h"
#include "filter/rank_map/spread.h"
#include "quire/slice.h"

namespace quire::filter {

constexpr uint32_t kSlotsPerBlock = 64;
constexpr uint32_t kSlotsPerBucket = 128;
constexpr uint32_t kSlotsPerThreshold = 8;  ///< the unit of a threshold, in slots
constexpr uint32_t kThresholdAll = 15;      ///< the whole bucket is bumped
constexpr uint32_t kLayersMax = 16;
constexpr size_t kRibbonHeaderBytes = 8;  ///< u16 layer_count, u16 flags, u32 listed_count
constexpr uint16_t kRibbonHasExtra = 1;   ///< keys of several ranks: the others are listed

inline size_t RoundUp8(size_t size) {
  return (size + 7) & ~size_t{7};
}

/// Returns the number of slots below which the keys of a bucket are bumped.
inline uint32_t BumpedSlots(uint32_t threshold) {
  return threshold == kThresholdAll ? kSlotsPerBucket : threshold * kSlotsPerThreshold;
}
inline size_t ThresholdBytes(uint32_t block_count) {
  return (size_t{block_count} + 3) / 4;
}

/// The place of a key in a layer: its equation. In the first layer keys stay in the order of
/// hashes.
struct Equation {
  Equation(uint64_t hash, uint64_t position, uint32_t layer, uint32_t block_count)
      : coefficients(Spread(hash + (2 * layer + 1) * kGoldenRatio) | 1) {
    const uint64_t starts = uint64_t{block_count} * kSlotsPerBlock - kSlotsPerBlock + 1;
    start = static_cast<uint32_t>(static_cast<unsigned __int128>(position) * starts >> 64);
  }
  uint32_t bucket() const { return start / kSlotsPerBucket; }
  uint32_t offset() const { return start % kSlotsPerBucket; }

  uint64_t coefficients;  ///< bit i: of slot start + i
  uint32_t start;
};

/// Returns the position of a key in a layer after the first.
inline uint64_t LaterPosition(uint64_t hash, uint32_t layer) {
  return Spread(hash + 2 * layer * kGoldenRatio);
}

}  // namespace quire::filter
