/// One rank's database: an LSM-tree of MemTables and SSTables with a write-ahead log that is the
/// MemTable's region.
///
/// Layer      lsm
/// Source     PapyrusKV, SC17, sections 2.4 to 2.6 (local MemTable, flushing, compaction, search
///            order)
/// Encoding   docs/format/manifest.md, segment.md, record.md, table.md
/// Threads    all functions from any thread unless said otherwise; background work on the Executor
/// Invariants a get searches the MemTable, immutable MemTables newest first, then tables newest
///            first, all of one Version; a table is in the manifest before its MemTable's segment
///            is recycled; nothing that a Version, an iterator or the manifest reaches is deleted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine_kind.h"
#include "engine/storage_engine.h"
#include "io/files/file_system.h"
#include "io/files/machine.h"
#include "quire/options.h"
#include "quire/status.h"

namespace quire::lsm {

/// Counts since open, and sizes now. All bytes.
struct DbStatistics {
  uint64_t user_bytes = 0;            ///< keys + values given to writes
  uint64_t log_bytes = 0;             ///< appended to log segments
  uint64_t value_log_bytes = 0;       ///< appended to value segments (by writes and by collection)
  uint64_t value_log_call_bytes = 0;  ///< of these, those given to write calls: large values
  uint64_t flush_bytes = 0;           ///< written to tables by flushes
  uint64_t compaction_read_bytes = 0;
  uint64_t compaction_write_bytes = 0;
  uint64_t flush_count = 0;
  uint64_t compaction_count = 0;
  uint64_t stall_ns = 0;  ///< writers waited for the flushing queue
  uint64_t table_count = 0;
  uint64_t run_count = 0;
  uint64_t table_bytes = 0;
  uint64_t value_segment_bytes = 0;
  uint64_t log_segment_bytes = 0;
  uint64_t memtable_hits = 0;
  uint64_t table_hits = 0;
  uint64_t filter_skips = 0;
  uint64_t filter_false = 0;
  uint64_t memory_bytes = 0;        ///< MemTables (segments and indexes)
  uint64_t block_cache_bytes = 0;   ///< of the whole cache, if databases share one
  uint64_t block_cache_hits = 0;    ///< data blocks that were in memory
  uint64_t block_cache_misses = 0;  ///< blocks, indexes and filters that were read
  uint64_t newest_ssid = 0;
  uint64_t recovered_records = 0;
  uint64_t recovered_holes = 0;
  uint64_t recovered_torn_bytes = 0;
};

class Db : public engine::StorageEngine,
           public engine::NeighbourReadable,
           public engine::Capturable,
           public engine::Backable {
 public:
  /// Opens a database, as EngineKind::Open does. A batch must fit a MemTable. Destruction keeps the
  /// log: the next open replays what is in MemTables.
  static Result<std::unique_ptr<Db>> Open(const engine::EngineEnvironment& environment,
                                          const std::string& directory,
                                          const StorageOptions& options, engine::OpenFlags flags);

  /// Returns the counts for the tests and benchmarks of this layer.
  virtual DbStatistics Statistics() const = 0;
  void AddStatistics(quire::Statistics* to) const override;

  engine::NeighbourReadable* neighbour_readable() override { return this; }
  engine::Capturable* capturable() override { return this; }
  engine::Backable* backable() override { return this; }
};

/// The removal of the database in a directory, piece by piece. Files that are not Quire's stay, in
/// <directory>.left-*.
class DbRemoval final : public engine::PartRemoval {
 public:
  /// `lock`: the database's lock, if the caller holds it; null: the removal takes it.
  DbRemoval(io::FileSystem& fs, std::string directory,
            std::unique_ptr<io::FileLock> lock = nullptr);
  Result<bool> Advance() override;

 private:
  Status Begin();

  io::FileSystem& fs_;
  const std::string directory_;
  std::unique_ptr<io::FileLock> lock_;
  bool begun_ = false;
  std::vector<std::string> files_;  // to remove, the last one first
};

/// Removes the database in `directory` at once.
Status DestroyDb(io::FileSystem& fs, const std::string& directory);

}  // namespace quire::lsm
