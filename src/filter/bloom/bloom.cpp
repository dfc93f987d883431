#include "filter/bloom/bloom.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/text/coding.h"

namespace quire::filter {
namespace {

constexpr size_t kBlockBytes = 64;
constexpr int kBitIndexBits = 9;  // a block has 2^9 bits
constexpr uint64_t kBitIndexMask = 511;
constexpr int kProbesPerWord = 64 / kBitIndexBits;
constexpr int kProbesMax = 2 * kProbesPerWord;
constexpr int kBitsPerKeyMax = 64;
constexpr size_t kPrefetchDistance = 16;

constexpr uint64_t kBlockFactor = 0x9FB21C651E98DF25;
constexpr uint64_t kBitFactor = 0xD6E8FEB86659FD93;

// The number of probes with the lowest error for 1, 2, ... bits per key, from the distribution of
// keys over blocks (Poisson); where one fewer costs under a hundredth of the error, one fewer.
constexpr std::array<int, 32> kProbes = {1,  1,  2,  3,  3,  4,  5,  5,  6,  6,  7,
                                         8,  8,  9,  9,  10, 10, 10, 11, 11, 12, 12,
                                         12, 13, 13, 13, 14, 14, 14, 14, 14, 14};

int ProbesFor(int bits_per_key) {
  const size_t index = static_cast<size_t>(bits_per_key) - 1;
  return kProbes[std::min(index, kProbes.size() - 1)];
}

// Returns the key's hash, mixed once more: owner ranks and index slots are chosen by the hash's own
// high or low bits, so that within one table those may be the same for all keys.
uint64_t SpreadOverBlocks(uint64_t hash) {
  return hash * kBlockFactor;
}

size_t BlockOf(uint64_t spread, size_t block_count) {
  return static_cast<size_t>(((spread >> 32) * block_count) >> 32);
}

uint64_t Mix(uint64_t word) {
  word = (word ^ (word >> 32)) * kBitFactor;
  return word ^ (word >> 32);
}

// Calls visit(index) for each probe's bit in the block: 7 indices of 9 bits from each mixed word.
template <typename Visit>
void ForEachProbe(uint64_t spread, int probes, Visit visit) {
  uint64_t word = Mix(spread);
  const uint64_t second_word = word;
  for (int i = 0; i < std::min(probes, kProbesPerWord); ++i, word >>= kBitIndexBits) {
    visit(word & kBitIndexMask);
  }
  if (probes <= kProbesPerWord) return;
  word = Mix(second_word);
  for (int i = kProbesPerWord; i < probes; ++i, word >>= kBitIndexBits) {
    visit(word & kBitIndexMask);
  }
}

// The bytes after the blocks say nothing but their number, which is the number of probes: so that
// a question need not read a header in another cache line.
struct Shape {
  size_t block_count;
  int probes;
  bool ok() const { return block_count > 0 && probes > 0 && probes <= kProbesMax; }
};

Shape ShapeOf(Slice filter) {
  return {filter.size() / kBlockBytes, static_cast<int>(filter.size() % kBlockBytes)};
}

}  // namespace

std::string BloomBuild(const std::vector<uint64_t>& hashes, int bits_per_key) {
  if (hashes.empty()) return "";
  const int bits = std::clamp(bits_per_key, 1, kBitsPerKeyMax);
  const int probes = ProbesFor(bits);
  const size_t bit_count = hashes.size() * static_cast<size_t>(bits);
  const size_t block_count = (bit_count + kBlockBytes * 8 - 1) / (kBlockBytes * 8);
  std::string filter(block_count * kBlockBytes + static_cast<size_t>(probes), '\0');
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (i + kPrefetchDistance < hashes.size()) {
      const uint64_t ahead = SpreadOverBlocks(hashes[i + kPrefetchDistance]);
      __builtin_prefetch(filter.data() + BlockOf(ahead, block_count) * kBlockBytes, 1);
    }
    const uint64_t spread = SpreadOverBlocks(hashes[i]);
    char* block = filter.data() + BlockOf(spread, block_count) * kBlockBytes;
    ForEachProbe(spread, probes, [block](uint64_t index) {
      block[index >> 3] = static_cast<char>(block[index >> 3] | (1 << (index & 7)));
    });
  }
  return filter;
}

bool BloomMayContain(Slice filter, uint64_t hash) {
  const Shape shape = ShapeOf(filter);
  if (!shape.ok()) return true;
  const uint64_t spread = SpreadOverBlocks(hash);
  const char* block = filter.data() + BlockOf(spread, shape.block_count) * kBlockBytes;
  uint64_t all = 1;
  ForEachProbe(spread, shape.probes, [block, &all](uint64_t index) {
    all &= base::LoadLe<uint64_t>(block + (index >> 6) * sizeof(uint64_t)) >> (index & 63);
  });
  return (all & 1) != 0;
}

void BloomPrefetch(Slice filter, uint64_t hash) {
  const Shape shape = ShapeOf(filter);
  if (!shape.ok()) return;
  __builtin_prefetch(filter.data() +
                     BlockOf(SpreadOverBlocks(hash), shape.block_count) * kBlockBytes);
}

}  // namespace quire::filter
