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

#include "base/coding.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "table/block_cache.h"

namespace quire::table {

struct BlockKeys;

/// A short key that is >= `last` and < `next` (given last < next): a prefix of `next`, or `last`.
std::string ShortestSeparator(Slice last, Slice next);

/// Writes SSIndex, block by block.
class IndexBuilder {
 public:
  /// The next block: its size in the file, its separator, whether the next block begins with its
  /// last key.
  void Add(uint64_t stored_bytes, Slice separator, bool continues);
  uint64_t block_count() const { return block_count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  uint64_t block_count_ = 0;
};

/// The index of an open table: it lies, with its arrays, in one piece of memory.
///
/// The search is over the 8 bytes of each separator that follow what all separators share: first
/// over every 16th (tops), then in one group of 16; only equal words are decided by whole keys.
class TableIndex {
 public:
  /// Memory for `block_count` blocks and `stored_bytes` of SSIndex: what Build needs.
  static uint64_t MemoryBytes(uint64_t block_count, uint64_t stored_bytes);
  /// The place in that memory into which SSIndex must be read before Build.
  static char* StoredPlace(char* memory, uint64_t block_count);
  /// Builds the index in `memory` (8-byte aligned) from the SSIndex contents at StoredPlace. Null
  /// if they are not an index of `block_count` blocks of `data_bytes`; *why has the reason.
  static const TableIndex* Build(char* memory, uint64_t block_count, uint64_t contents_bytes,
                                 uint64_t data_bytes, const char** why);

  uint64_t block_count() const { return block_count_; }
  /// The first block whose separator is >= `key`: where `key` is, if anywhere. block_count():
  /// nowhere. `slots`, if not null, has a pointer per block, of which the cache is asked for those
  /// near the result.
  uint64_t FindBlock(Slice key, const CacheSlot* slots = nullptr) const;
  uint64_t offset(uint64_t block) const { return offsets_[block] >> 1; }
  uint64_t stored_bytes(uint64_t block) const { return offset(block + 1) - offset(block); }
  /// The next block begins with the last key of this one.
  bool Continues(uint64_t block) const { return (offsets_[block] & 1) != 0; }
  Slice separator(uint64_t block) const;
  /// Null where keys from the first to the last of `keys` may stand in `block`: above the separator
  /// before (not below it, where that block continues), and up to its own; else what is wrong.
  /// Cost: hardly ever more than the words that FindBlock has read.
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
  Slice common_;  ///< what all separators begin with
};

}  // namespace quire::table
