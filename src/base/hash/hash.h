/// Key hash and checksums: XXH3-64 in two roles. Both are on disk and on the wire: pinned by tests.
///
/// Layer      base
/// Encoding   docs/format/checksum.md
/// Threads    pure functions
#pragma once

#include <cstddef>
#include <cstdint>

#include "quire/slice.h"

namespace quire::base {

/// Returns the hash of a key, which determines the owner rank, the Bloom filter's bits and the
/// index slot. Seed 0.
uint64_t HashKey(Slice key);
/// Returns the rank, of `rank_count`, that owns a key with this hash if there is no partitioner.
/// The hash is mixed again first, so that the keys of one rank still differ in all bits of their
/// hashes, and its index slots are used evenly for any number of ranks.
inline int OwnerOf(uint64_t hash, int rank_count) {
  const uint64_t spread = (hash ^ hash >> 32) * 0xC2B2AE3D27D4EB4F;
  return static_cast<int>((spread >> 32) * static_cast<uint64_t>(rank_count) >> 32);
}

/// [bytes] The size of a block of HashBlocks.
constexpr size_t kHashedBlockBytes = 256;
/// Sets `hashes` to HashKey of each of `count` contiguous blocks of kHashedBlockBytes.
void HashBlocks(const char* data, size_t count, uint64_t* hashes);

/// The kind of data that a checksum protects. It is part of the seed, so that a block of another
/// kind never verifies.
enum class ChecksumKind : uint8_t {
  kLogHeader = 1,
  kLogRecord = 2,
  kDataBlock = 3,
  kIndexBlock = 4,
  kFilterBlock = 5,
  kProperties = 6,
  kFooter = 7,
  kManifest = 8,
  kMessage = 9,
  kValue = 10,
  kFile = 11,
  kRankMap = 12,
  kDataset = 13,
  kStreamHead = 14,
  kStreamCommit = 15,
  kStreamEntry = 16,
  kStreamData = 17,
  kStreamMessage = 18,
  kLogBegun = 19,
};

/// Returns the seed that binds a checksum to a kind, a file's identity and an offset in it.
uint64_t ChecksumSeed(ChecksumKind kind, uint64_t file_id, uint64_t offset);

/// Returns the checksum of `data` under `seed`.
uint64_t Checksum(Slice data, uint64_t seed);

/// A Checksum that is computed over pieces of data in order.
class PiecewiseChecksum {
 public:
  explicit PiecewiseChecksum(uint64_t seed);
  void Add(Slice piece);
  uint64_t Sum() const;

 private:
  static constexpr size_t kStateBytes = 576;
  alignas(64) unsigned char state_[kStateBytes];  // XXH3's
};

/// Returns the checksum of `head`, `key` and `value` in this order, without copying them: for a log
/// record.
uint64_t ChecksumParts(Slice head, Slice key, Slice value, uint64_t seed);

}  // namespace quire::base
