#include "base/hash.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace quire::base {
namespace {

// Up to this many bytes, copying the parts together and hashing once is cheaper than streaming
// (which sets up half a kilobyte of state). Measured: see docs/format/checksum.md.
constexpr size_t kJoinBytesMax = 1024;

constexpr uint64_t kFileFactor = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio: multiples far apart
constexpr uint64_t kKindFactor = 0xC2B2AE3D27D4EB4F;
constexpr uint64_t kMixFactor = 0xFF51AFD7ED558CCD;

char* Append(char* to, Slice part) {
  if (!part.empty()) std::memcpy(to, part.data(), part.size());
  return to + part.size();
}

bool Adjacent(Slice first, Slice second) {
  return second.empty() || first.data() + first.size() == second.data();
}

uint64_t Stream(Slice head, Slice key, Slice value, uint64_t seed) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  // The update functions fail on null input only, and the parts are not null where not empty.
  XXH3_64bits_reset_withSeed(&state, seed);
  for (Slice part : {head, key, value}) {
    if (!part.empty()) XXH3_64bits_update(&state, part.data(), part.size());
  }
  return XXH3_64bits_digest(&state);
}

}  // namespace

uint64_t HashKey(Slice key) { return XXH3_64bits(key.data(), key.size()); }

uint64_t ChecksumSeed(ChecksumKind kind, uint64_t file_id, uint64_t offset) {
  uint64_t seed = file_id * kFileFactor + offset + static_cast<uint64_t>(kind) * kKindFactor;
  seed ^= seed >> 33;
  seed *= kMixFactor;
  return seed ^ (seed >> 33);
}

uint64_t Checksum(Slice data, uint64_t seed) {
  return XXH3_64bits_withSeed(data.data(), data.size(), seed);
}

uint64_t ChecksumParts(Slice head, Slice key, Slice value, uint64_t seed) {
  const size_t size = head.size() + key.size() + value.size();
  if (Adjacent(head, key) && Adjacent(key.empty() ? head : key, value)) {
    return XXH3_64bits_withSeed(head.data(), size, seed);
  }
  if (size <= kJoinBytesMax) {
    char joined[kJoinBytesMax];
    Append(Append(Append(joined, head), key), value);
    return XXH3_64bits_withSeed(joined, size, seed);
  }
  return Stream(head, key, value, seed);
}

}  // namespace quire::base
