/// One rank's database: an LSM-tree of MemTables and SSTables with a write-ahead log that is the
/// MemTable's region.
///
/// Layer      lsm
/// Source     PapyrusKV, SC17, sections 2.4 to 2.6 (local MemTable, flushing, compaction, search
///            order)
/// Encoding   docs/format/manifest.md, segment.md, record.md, table.md
/// Threads    all functions from any thread unless said otherwise; background work on the Executor
/// Invariants what a get sees is MemTable, immutable MemTables newest first, then tables newest
///            first, all of one Version; a table is in the manifest before its MemTable's segment
///            is recycled; nothing a Version, an iterator or the manifest reaches is deleted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/executor.h"
#include "io/files/file_system.h"
#include "io/files/machine.h"
#include "lsm/memtable/write_batch.h"
#include "lsm/version/backing_store.h"
#include "lsm/version/iterator.h"
#include "lsm/vlog/value_log.h"
#include "quire/options.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "table/table.h"

namespace quire::lsm {

/// The services that a database uses.
struct DbEnvironment {
  io::FileSystem* fs = nullptr;
  base::Executor* executor = nullptr;
  std::shared_ptr<table::BlockCache> cache;  ///< null: one of its own, StorageOptions::cache_bytes
  /// indexes in /dev/shm for the neighbours; else private
  bool share_memory = false;
  std::string holder;                     ///< for the lock file: host, pid, job
  std::shared_ptr<const BackingStore> base;  ///< null: none
  /// a write waits so long for a MemTable to become free
  uint64_t pinned_wait_ms_max = 60'000;
};

enum class OpenFlags { kOpenOrCreate, kMustExist, kMustNotExist };

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
  uint64_t block_cache_bytes = 0;   ///< of the whole cache, where databases share one
  uint64_t block_cache_hits = 0;    ///< data blocks that were in memory
  uint64_t block_cache_misses = 0;  ///< blocks, indexes and filters that were read
  uint64_t newest_ssid = 0;
  uint64_t recovered_records = 0;
  uint64_t recovered_holes = 0;
  uint64_t recovered_torn_bytes = 0;
};

/// Which tables there are, for those who read them themselves.
struct TablesPosition {
  uint64_t store_id = 0;
  uint64_t edition = 0;   ///< of the manifest
  bool has_base = false;  ///< what no table knows may be in the base
};

/// The tables and sealed value segments of a database at one moment. None of their files goes or
/// changes as long as it lives, which is not longer than the database.
class Capture {
 public:
  struct File {
    std::string name;  ///< within the database's directory
    uint64_t file_bytes = 0;
    /// random, chosen when the file was made: of a table TableInfo::file_id, of a value segment
    /// SegmentHeader::generation. Names come again, where a database goes back to an older state.
    uint64_t identity = 0;
  };
  virtual ~Capture() = default;
  virtual const std::vector<File>& files() const = 0;
  /// The manifest of a database of these files alone.
  virtual const std::string& manifest() const = 0;
};

/// Reads the present value (absent: null) and gives the new one; false: leave it as it is. Runs
/// atomically for the key. Runs again if another write changed the key while the update waited for
/// room.
using UpdateFn = std::function<bool(Slice key, const Slice* present, std::string* updated)>;

/// How far a write has come that may have to stop and go on later: one that another rank asked for,
/// on a thread that must not wait. Used by one thread at a time, for one write.
struct WriteProgress {
  bool may_wait = true;  ///< false: if there is no room for the write it stops, and sets `waits`
  /// Out, with kBusy: nothing failed. The same call with the same arguments and this progress goes
  /// on with what is left; it is worth trying after some milliseconds.
  bool waits = false;
  uint64_t applied = 0;  ///< out: operations of Apply and Fill that are there at the log's level

  // State of the database from one call to the next.
  size_t over = 0;               // operations that are over, applied or refused
  Status refused;                // why the first of them was refused
  uint64_t full_generation = 0;  // of the MemTable in which there was no room; 0: none
  uint64_t stopped_ns = 0;       // since when it waits
  uint64_t pinned_since_ns = 0;  // since when no MemTable is free, though the flushes keep up
  bool flush_retried = false;
  // An update function that ran, and what it was given: for what it gave there was no room.
  bool ran = false;
  bool ran_on_value = false;
  std::string ran_on;
  std::string updated;
};

class Db {
 public:
  /// Opens the database in `directory` (one rank's; created 0700 where absent), recovers what the
  /// log promises.
  /// Errors  kBusy (open elsewhere; names the holder), kNotFound / kInvalidArgument (flags),
  ///         kCorruption, kUnsupported (newer format), kNoSpace, kIo. Nothing is changed on error
  ///         but completed recovery steps.
  static Result<std::unique_ptr<Db>> Open(const DbEnvironment& environment,
                                          const std::string& directory,
                                          const StorageOptions& options, OpenFlags flags);
  /// Waits for background work, keeps the log (what is in MemTables is replayed by the next open),
  /// releases the lock.
  virtual ~Db() = default;

  /// One write, at the level of StorageOptions::wal. kReadOnly after a background failure (text:
  /// which): not applied. kNoSpace: not applied. kBusy: no MemTable became free for
  /// DbEnvironment::pinned_wait_ms_max; not applied. kIo: the outcome is unknown. If the sync of
  /// WalMode::kSync failed, the write is stored and seen, but a loss of power may take it. Blocks,
  /// asleep, while the flushing queue is full.
  virtual Status Put(Slice key, Slice value) = 0;
  virtual Status Delete(Slice key) = 0;
  /// The keys of [begin, end). kInvalidArgument, as of a batch: `end` is longer than a key; here
  /// also if it lies before `begin`.
  virtual Status DeleteRange(Slice begin, Slice end) = 0;
  /// All operations or none: for readers and for recovery. The batch must fit a MemTable
  /// (kInvalidArgument).
  virtual Status Write(const WriteBatch& batch, WriteProgress* progress) = 0;
  Status Write(const WriteBatch& batch);
  /// The operations one after another, as if each came by its own call, in one go (migration).
  /// `progress` counts those that are there at the log's level (after kIo: none, though they may
  /// be). One that is wrong in itself, or whose update function fails, takes no other with it.
  /// After any other failure the rest is not tried, and that failure is returned, else the first
  /// refusal.
  /// kUpdate operations run `update(function id, argument, ...)`, which may be empty if there
  /// are none.
  using WireUpdateFn =
      std::function<Status(uint32_t function, Slice argument, Slice key, const Slice* present,
                           std::string* updated, bool* write)>;
  virtual Status Apply(Slice batch_bytes, const WireUpdateFn& update, WriteProgress* progress) = 0;
  /// Puts and deletes of keys that this database knows nothing of, neither value nor tombstone, its
  /// base left aside; operations on others do nothing. As Apply in the rest.
  virtual Status Fill(Slice batch_bytes, WriteProgress* progress) = 0;
  /// From now on there is no base: a key that is known nowhere is absent. Gets and updates that ask
  /// it and iterators over it end as they began, and keep it for so long. Not inside an EpochGuard.
  virtual void DetachBackingStore() = 0;
  /// Read-modify-write, atomic for the key against all other writes of it.
  virtual Status Update(Slice key, const UpdateFn& update, WriteProgress* progress) = 0;
  Status Update(Slice key, const UpdateFn& update);

  /// The newest value (at `snapshot`, null: now), copied once, into the place that `allocate`
  /// gives. kNotFound: absent.
  virtual Status Get(Slice key, const Snapshot* snapshot,
                     const BufferAllocator& allocate) const = 0;
  /// The same into a string.
  Status Get(Slice key, std::string* value, const Snapshot* snapshot = nullptr) const;
  /// Only in memory: MemTables (and says whether it is certain). For storage groups: kNotFound with
  /// *decided = true is a tombstone; *decided = false: look into the tables, of `tables` (may be
  /// null) or of a later edition.
  virtual Status GetFromMemory(Slice key, const BufferAllocator& allocate, bool* decided,
                               TablesPosition* tables) const = 0;

  virtual std::unique_ptr<Snapshot> NewSnapshot() = 0;
  virtual std::unique_ptr<Iterator> NewIterator(const IteratorOptions& options) = 0;

  /// Every write so far into tables, these and the manifest durable (P2). Waits.
  virtual Status Flush() = 0;
  /// Flushes, and holds on to what there is then. Writes that go on meanwhile may be in it or not.
  virtual Result<std::shared_ptr<const Capture>> NewCapture() = 0;
  /// Makes every write so far durable in place (log and value segments): P2.
  virtual Status SyncLog() = 0;
  /// Merges all runs into one, dead versions and tombstones dropped. Waits.
  virtual Status Compact() = 0;
  /// Waits until no flush and no compaction is due. kReadOnly: one failed, or a sync of the log.
  virtual Status WaitIdle() = 0;
  /// Reads everything and verifies every checksum.
  virtual Status Verify() = 0;
  /// The failure that turned the database read-only, or OK.
  virtual Status background_status() const = 0;

  virtual DbStatistics Statistics() const = 0;
  /// The name and size that neighbours need to attach a PeerReader; empty if memory is not shared.
  virtual std::string region_name() const = 0;
  virtual uint64_t region_bytes() const = 0;
  /// All neighbours are attached (or never will): take the name away.
  virtual void UnlinkRegion() = 0;
};

/// The removal of the database in a directory, piece by piece. Files of others stay, in
/// <directory>.left-*.
class DbRemoval {
 public:
  /// `lock`: the database's, of the one who has it. Null: it is taken.
  DbRemoval(io::FileSystem& fs, std::string directory,
            std::unique_ptr<io::FileLock> lock = nullptr);
  /// Removes some files, for about 10 ms: true once the directory is gone. kBusy: it is open.
  Result<bool> Advance();

 private:
  Status Begin();

  io::FileSystem& fs_;
  const std::string directory_;
  std::unique_ptr<io::FileLock> lock_;
  bool begun_ = false;
  std::vector<std::string> files_;  // to remove, the last one first
};

/// The same at once.
Status DestroyDb(io::FileSystem& fs, const std::string& directory);
/// The same, by the one who has its lock.
Status DestroyDb(io::FileSystem& fs, const std::string& directory,
                 std::unique_ptr<io::FileLock> lock);

}  // namespace quire::lsm
