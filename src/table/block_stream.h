/// Data blocks read past the cache, in large pieces: for compactions and verification.
///
/// Layer      table
/// Threads    one thread
#pragma once

#include <cstdint>

#include "table/block_cache.h"
#include "table/table_reader.h"

namespace quire::table {

class BlockStream {
 public:
  /// Reads the blocks of `table`, whose index is `index`; both outlive the stream.
  BlockStream(const TableReader& table, const TableIndex& index) : table_(table), index_(index) {}
  /// Returns the validated contents of `block`, valid until the next call. Blocks that follow the
  /// last one, in either direction, are read in pieces that grow.
  Status Read(uint64_t block, Slice* contents);

 private:
  void Choose(uint64_t block);
  Status Fill();

  const TableReader& table_;
  const TableIndex& index_;
  uint64_t first_ = 0;  ///< the blocks [first_, last_) are in piece_
  uint64_t last_ = 0;
  uint64_t piece_bytes_max_ = 0;
  BlockPin piece_;
  BlockPin decompressed_;
};

}  // namespace quire::table
