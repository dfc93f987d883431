/// SSTable: sorted, immutable, checksummed. One file with the paper's three parts: SSData, SSIndex,
/// Bloom filter.
///
/// Layer      table
/// Source     PapyrusKV, SC17, sections 2.4 and 2.6; LevelDB's table format for block structure
/// Encoding   docs/format/table.md
/// Threads    TableBuilder: one thread. Table: any number of readers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "quire/options.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "table/entry_iterator.h"
#include "table/lookup_result.h"

namespace quire::table {

class BlockCache;
class CachedBlock;

/// Makes a cache of at most `capacity_bytes`. Shared by any number of tables and databases.
std::shared_ptr<BlockCache> NewBlockCache(uint64_t capacity_bytes);
struct CacheStatistics;
CacheStatistics Statistics(const BlockCache& cache);

/// Bytes of values that a table's entries refer to in one value segment.
struct SegmentUse {
  uint64_t segment_id = 0;
  uint64_t bytes = 0;  ///< of the records in the segment
};

/// The content of a table's footer and properties; also kept in the manifest.
struct TableInfo {
  uint64_t ssid = 0;  ///< the file's name and identity (seeds its checksums together with file_id)
  uint64_t file_id = 0;  ///< random, in the footer
  uint64_t file_bytes = 0;
  uint64_t entry_count = 0;
  uint64_t key_count = 0;        ///< distinct keys
  uint64_t tombstone_count = 0;  ///< point and range
  uint64_t range_tombstone_count = 0;
  uint64_t raw_bytes = 0;        ///< keys + values before encoding (separated values not counted)
  uint64_t min_lsn = 0;
  uint64_t max_lsn = 0;
  std::string smallest_key;  ///< of entries and range tombstones
  std::string largest_key;   ///< inclusive; a range tombstone's end counts as included
  std::vector<SegmentUse> segments;
};

/// Keys of which a table has lost versions, because their data blocks cannot be read: those above
/// `after` (without it: from the first on), up to and including `up_to`.
struct LostRange {
  std::optional<std::string> after;
  std::string up_to;
  bool with_after = false;  ///< older versions of `after` are lost, too
};

/// Writes one table: entries in EntryIterator order (key ascending, LSN descending).
class TableBuilder {
 public:
  /// Creates a table in a new file at `path` (must not exist). `file_id`: random, from the caller.
  static Result<std::unique_ptr<TableBuilder>> Create(io::FileSystem& fs, const std::string& path,
                                                      uint64_t ssid, uint64_t file_id,
                                                      const StorageOptions& options);
  /// Creates a table in an open, empty file, which may be a part of one (io/paths/file_section.h)
  /// and which its owner syncs.
  static std::unique_ptr<TableBuilder> CreateIn(std::unique_ptr<io::File> file, uint64_t ssid,
                                                uint64_t file_id, const StorageOptions& options);
  virtual ~TableBuilder() = default;
  virtual Status Add(Slice key, log::RecordType type, Slice value, uint64_t lsn) = 0;
  virtual Status AddRangeTombstone(const RangeTombstone& tombstone) = 0;
  /// Returns the bytes so far: about the size that the file will have.
  virtual uint64_t file_bytes() const = 0;
  /// Writes index, filter, properties, footer and syncs the file (P2; not its directory). Nothing
  /// may be called after it.
  virtual Result<TableInfo> Finish() = 0;
};

/// An open table.
class Table {
 public:
  /// Opens a table: reads and verifies footer and properties. Index and filter are read at first
  /// use and kept in `cache`.
  static Result<std::shared_ptr<Table>> Open(io::FileSystem& fs, const std::string& path,
                                             uint64_t ssid, const StorageOptions& options,
                                             std::shared_ptr<BlockCache> cache);
  /// Opens a table in an open file, which does not change any more.
  static Result<std::shared_ptr<Table>> OpenIn(std::unique_ptr<io::File> file, uint64_t ssid,
                                               const StorageOptions& options,
                                               std::shared_ptr<BlockCache> cache);
  virtual ~Table() = default;
  /// Prefetches the cache lines that MayContain will touch.
  virtual void PrefetchFilter(uint64_t hash) const = 0;
  /// Returns false only if no entry has a key of that hash, and true if the filter is unreadable.
  /// Call inside an EpochGuard.
  virtual bool MayContain(uint64_t hash) const = 0;
  /// Finds the newest version of `key` at or below `snapshot` (range tombstones not applied). Call
  /// inside an EpochGuard; the value is valid until the guard leaves. Cost: at most one data read.
  virtual Status Get(Slice key, uint64_t hash, uint64_t snapshot, LookupResult* found) const = 0;
  /// Returns the LSN of the newest range tombstone at or below `snapshot` that covers `key`; 0:
  /// none.
  virtual uint64_t CoveringTombstone(Slice key, uint64_t snapshot) const = 0;
  virtual const std::vector<RangeTombstone>& range_tombstones() const = 0;
  /// Returns an iterator in order of the keys, which pins its block and keeps the table alive.
  /// `fill_cache` false: for compactions, which read ahead in large pieces and do not change the
  /// cache.
  virtual std::unique_ptr<EntryIterator> NewIterator(bool fill_cache) const = 0;
  virtual const TableInfo& info() const = 0;
  /// Reads everything and verifies every checksum, and that index, filter and properties are those
  /// of the entries; kCorruption names block and offset. Cost: some 200 ns per entry.
  virtual Status Verify() const = 0;
  /// Verifies the checksums alone, at the speed of memory. If blocks have none, does as Verify.
  virtual Status VerifyChecksums() const = 0;
  /// Reads all data blocks, and returns the key ranges of the damaged ones, in rising order: each
  /// range ends with a higher key than the one before. For repair.
  ///
  /// Errors  kCorruption: SSIndex is damaged, so that no block can be found. kIo: unreadable.
  virtual Result<std::vector<LostRange>> FindLostRanges() const = 0;
};

}  // namespace quire::table
