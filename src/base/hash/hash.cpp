#include "base/hash/hash.h"

#include <cstring>

#include "base/hash/hash_long.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace quire::base {
namespace {

// XXH3 has other, shorter code for up to this many bytes. Up to this size, joining parts by a copy
// is also cheaper than streaming them, which sets up half a kilobyte of state.
constexpr size_t kShortBytesMax = 240;

constexpr uint64_t kFileFactor = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio: multiples far apart
constexpr uint64_t kKindFactor = 0xC2B2AE3D27D4EB4F;
constexpr uint64_t kMixFactor = 0xFF51AFD7ED558CCD;

const LongHash& ChooseLongHash() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) return kLongHashAvx2;
#endif
  return kLongHashAny;
}

const LongHash& TheLongHash() {
  static const LongHash& hash = ChooseLongHash();
  return hash;
}

char* Append(char* to, Slice part) {
  if (!part.empty()) std::memcpy(to, part.data(), part.size());
  return to + part.size();
}

bool Adjacent(Slice first, Slice second) {
  return second.empty() || first.data() + first.size() == second.data();
}

}  // namespace

uint64_t HashKey(Slice key) { return XXH3_64bits(key.data(), key.size()); }

void HashBlocks(const char* data, size_t count, uint64_t* hashes) {
  TheLongHash().blocks(data, count, hashes);
}

uint64_t ChecksumSeed(ChecksumKind kind, uint64_t file_id, uint64_t offset) {
  uint64_t seed = file_id * kFileFactor + offset + static_cast<uint64_t>(kind) * kKindFactor;
  seed ^= seed >> 33;
  seed *= kMixFactor;
  return seed ^ (seed >> 33);
}

uint64_t Checksum(Slice data, uint64_t seed) {
  if (data.size() <= kShortBytesMax) return XXH3_64bits_withSeed(data.data(), data.size(), seed);
  return TheLongHash().one(data.data(), data.size(), seed);
}

PiecewiseChecksum::PiecewiseChecksum(uint64_t seed) {
  static_assert(kStateBytes == kHashStateBytes);
  TheLongHash().begin(state_, seed);
}

void PiecewiseChecksum::Add(Slice piece) {
  if (!piece.empty()) TheLongHash().add(state_, piece.data(), piece.size());
}

uint64_t PiecewiseChecksum::Sum() const {
  return TheLongHash().end(state_);
}

uint64_t ChecksumParts(Slice head, Slice key, Slice value, uint64_t seed) {
  const size_t size = head.size() + key.size() + value.size();
  if (Adjacent(head, key) && Adjacent(key.empty() ? head : key, value)) {
    return Checksum(Slice(head.data(), size), seed);
  }
  if (size <= kShortBytesMax) {
    char joined[kShortBytesMax];
    Append(Append(Append(joined, head), key), value);
    return XXH3_64bits_withSeed(joined, size, seed);
  }
  const HashPart parts[3] = {
      {head.data(), head.size()}, {key.data(), key.size()}, {value.data(), value.size()}};
  return TheLongHash().three(parts, seed);
}

}  // namespace quire::base
