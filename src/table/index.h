/// SSIndex: which data block may hold a key. In the file a list of separators; in memory arrays for
/// binary search.
///
/// Layer      table
/// Source     PapyrusKV, SC17, sections 2.4 and 2.6
/// Encoding   docs/format/table.md, "SSIndex"
/// Threads    IndexBuilder: one thread. TableIndex: immutable.
#pragma once

#include <cstdint>
#include <string>

#include "base/text/coding.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "table/block_cache.h"

namespace quire::table {

struct BlockKeys;

/// Returns a short key that is >= `last` and < `next` (given last < next): a prefix of `next`, or
/// `last`.
std::string ShortestSeparator(Slice last, Slice next);

/// Writes SSIndex, block by block.
class IndexBuilder {
 public:
  /// Adds the next block: its size in the file, its separator, and whether the block after it
  /// begins with its last key.
  void Add(uint64_t stored_bytes, Slice separator, bool continues);
  uint64_t block_count() const { return block_count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  uint64_t block_count_ = 0;
};

/// The index of an open table. It and its arrays lie in one piece of memory.
///
/// The search is over the 8 bytes of each separator that follow what all separators share: first
/// over every 16th (tops), then in one group of 16; only equal words are decided by whole keys.
class TableIndex {
 public:
  /// Returns the bytes of memory that Build needs for `block_count` blocks and `stored_bytes` of
  /// SSIndex.
  static uint64_t MemoryBytes(uint64_t block_count, uint64_t stored_bytes);
  /// Returns the place in that memory into which SSIndex must be read before Build.
  static char* StoredPlace(char* memory, uint64_t block_count);
  /// Builds the index in `memory` (8-byte aligned) from the SSIndex contents at StoredPlace.
  /// Returns null, and the reason in *why, if they are not an index of `block_count` blocks of
  /// `data_bytes`.
  static const TableIndex* Build(char* memory, uint64_t block_count, uint64_t contents_bytes,
                                 uint64_t data_bytes, const char** why);

  uint64_t block_count() const { return block_count_; }
  /// Returns the first block whose separator is >= `key`: the block of `key`, if the table contains
  /// it; block_count() if there is no such block. `slots`, if not null, contains a pointer per
  /// block; those near the result are prefetched.
  uint64_t FindBlock(Slice key, const CacheSlot* slots = nullptr) const;
  uint64_t offset(uint64_t block) const { return offsets_[block] >> 1; }
  uint64_t stored_bytes(uint64_t block) const { return offset(block + 1) - offset(block); }
  /// Returns whether the next block begins with the last key of this one.
  bool Continues(uint64_t block) const { return (offsets_[block] & 1) != 0; }
  Slice separator(uint64_t block) const;
  /// Returns null if keys from the first to the last of `keys` may be in `block`: above the
  /// separator before (or equal to it, if that block continues), and up to its own; else what is
  /// wrong. Cost: hardly ever more than the words that FindBlock has read.
  const char* CheckKeys(uint64_t block, const BlockKeys& keys) const;

 private:
  TableIndex() = default;
  bool Fill(Slice contents, uint64_t data_bytes, const char** why);
  void FillWords();
  int Compare(Slice prefix, Slice suffix, uint64_t block) const;
  uint64_t FindAmongEqual(uint64_t first, uint64_t word, Slice rest) const;

  uint64_t block_count_ = 0;
  uint64_t group_count_ = 0;
  uint64_t* words_ = nullptr;  ///< per block, filled up to whole groups with the highest word
  uint64_t* tops_ = nullptr;   ///< the last word of each group
  uint64_t* offsets_ =
      nullptr;  ///< of each block and of the end, times 2, plus 1 where it continues
  uint64_t* places_ = nullptr;  ///< of each separator's length in stored_
  const char* stored_ = nullptr;
  Slice common_;  ///< the prefix that all separators share
};

}  // namespace quire::table
