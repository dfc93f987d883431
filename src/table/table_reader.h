/// An open table: reads its blocks into memory and searches them. The iterator and the verification
/// of whole tables use it.
///
/// Layer      table
/// Source     PapyrusKV, SC17, section 2.6
/// Encoding   docs/format/table.md
/// Threads    any number of readers; functions that return CachedBlocks are called inside a
///            base::EpochGuard
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "table/block.h"
#include "table/block_cache.h"
#include "table/compression.h"
#include "table/format.h"
#include "table/index.h"
#include "table/table.h"
#include "table/tombstone_set.h"

namespace quire::table {

class TableReader final : public Table, public std::enable_shared_from_this<TableReader> {
 public:
  TableReader(std::unique_ptr<io::File> file, const Footer& footer, SearchMode search,
              std::shared_ptr<BlockCache> cache);
  ~TableReader() override;
  /// Reads and verifies the properties. Called once, before anything else.
  Status LoadProperties();

  void PrefetchFilter(uint64_t hash) const override;
  bool MayContain(uint64_t hash) const override;
  Status Get(Slice key, uint64_t hash, uint64_t snapshot, LookupResult* found) const override;
  uint64_t CoveringTombstone(Slice key, uint64_t snapshot) const override;
  const std::vector<RangeTombstone>& range_tombstones() const override { return tombstones_; }
  std::unique_ptr<EntryIterator> NewIterator(bool fill_cache) const override;
  const TableInfo& info() const override { return info_; }
  Status Verify() const override;
  Status VerifyChecksums() const override;
  Result<std::vector<LostRange>> FindLostRanges() const override;

  /// Returns the cached index, and reads it if necessary; null, and *status, if that fails.
  CachedBlock* FetchIndex(Status* status) const;
  static const TableIndex& IndexIn(const CachedBlock& block) {
    return *reinterpret_cast<const TableIndex*>(block.data());
  }
  /// Returns the cached data block, its contents validated, and reads it if necessary; null, and
  /// *status, if that fails.
  CachedBlock* FetchBlock(const TableIndex& index, uint64_t block, Status* status) const;
  /// Prefetches the head of a data block, if the block is in memory.
  void PrefetchBlock(uint64_t block) const;
  /// Returns the cached filter, and reads it if necessary; null, and *status, if that fails.
  CachedBlock* FetchFilter(Status* status) const;
  /// Return a copy of the index or filter from the file, with one reference, the caller's; null,
  /// and *status, on failure.
  CachedBlock* ReadIndex(Status* status) const;
  CachedBlock* ReadFilter(Status* status) const;
  /// Verifies the data block `block` as it is in the file (`stored`). *contents are its raw
  /// contents: within `stored`, or in `*decompressed`, a new block with one reference that is the
  /// caller's.
  Status OpenBlock(const TableIndex& index, uint64_t block, Slice stored, Slice* contents,
                   CachedBlock** decompressed) const;

  /// Returns the filter's bytes in a block that FetchFilter or ReadFilter returned.
  static Slice FilterIn(const CachedBlock& block);
  /// Reads and verifies the properties part.
  Status ReadProperties(TableInfo* info, std::vector<RangeTombstone>* tombstones) const;

  const io::File& file() const { return *file_; }
  const Footer& footer() const { return footer_; }

 private:
  CacheSlot* index_slot() const { return &slots_[footer_.block_count]; }
  CacheSlot* filter_slot() const { return &slots_[footer_.block_count + 1]; }
  CachedBlock* ReadBlock(const TableIndex& index, uint64_t block, Status* status) const;
  Status Decompressed(uint64_t offset, BlockForm form, Slice stored, CachedBlock** block) const;
  Status GetSequentially(const TableIndex& index, Slice key, uint64_t snapshot,
                         LookupResult* found) const;
  bool FindIn(const CachedBlock& block, Slice key, uint64_t hash, uint64_t snapshot,
              BlockEntry* entry) const;

  const std::unique_ptr<io::File> file_;
  const Footer footer_;
  const uint64_t identity_;
  const SearchMode search_;
  const std::shared_ptr<BlockCache> cache_;
  const std::unique_ptr<CacheSlot[]> slots_;  ///< of each data block, the index, the filter
  TableInfo info_;
  std::vector<RangeTombstone> tombstones_;
  TombstoneSet tombstone_set_;
};

/// Returns NewIterator's iterator over all entries, in order.
std::unique_ptr<EntryIterator> NewTableIterator(std::shared_ptr<const TableReader> table,
                                                bool fill_cache);

}  // namespace quire::table
