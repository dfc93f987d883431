/// One rank's part of a database, as the layers above see it: the functions of every storage
/// engine, and the interfaces ("faces") that only some engines have.
///
/// Layer      engine
/// Source     docs/decisions/0020-storage-engines.md
/// Threads    all functions from any thread unless said otherwise
/// Invariants a write that was acknowledged is seen by every later get; a snapshot and an iterator
///            see one moment
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/hash/hashed_key.h"
#include "engine/iterator.h"
#include "engine/write_batch.h"
#include "quire/buffer_allocator.h"
#include "quire/database.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::engine {

enum class OpenFlags { kOpenOrCreate, kMustExist, kMustNotExist };

/// Receives the present value (null: absent) and sets the new one. Returns false to leave the value
/// as it is. Runs atomically for the key. Runs again if another write changed the key while the
/// update waited for room.
using UpdateFn = std::function<bool(Slice key, const Slice* present, std::string* updated)>;

/// The progress of a write that may stop and continue later: a write for another rank, on a thread
/// that must not wait. Used by one thread at a time, for one write.
struct WriteProgress {
  bool may_wait = true;  ///< false: if there is no room, the write stops and sets `waits`
  /// Out, with kBusy: nothing failed. The same call with the same arguments and this progress
  /// continues with what is left; retry after some milliseconds.
  bool waits = false;
  uint64_t applied = 0;  ///< out: operations of Apply and Fill that are stored at the log's level

  // State of the engine from one call to the next.
  size_t over = 0;               // operations that are done: applied or refused
  Status refused;                // why the first of them was refused
  uint64_t full_generation = 0;  // of the MemTable in which there was no room; 0: none
  uint64_t stopped_ns = 0;       // when the write began to wait
  uint64_t pinned_since_ns = 0;  // since when no MemTable is free, though the flushes keep up
  bool flush_retried = false;
  // An update function that ran, its input, and its result, for which there was no room.
  bool ran = false;
  bool ran_on_value = false;
  std::string ran_on;
  std::string updated;
};

class NeighbourReadable;
class Capturable;
class Backable;

class StorageEngine {
 public:
  /// Waits for background work. Keeps what the level of StorageOptions::wal promises.
  virtual ~StorageEngine() = default;

  /// Writes or deletes one pair, at the level of StorageOptions::wal. kReadOnly after a background
  /// failure (the text says which): not applied. kNoSpace: not applied. kBusy: there was no room
  /// for it for EngineEnvironment::pinned_wait_ms_max; not applied. kIo: the outcome is unknown. If
  /// the sync of WalMode::kSync failed, the write is stored and seen, but a loss of power may take
  /// it. May block, asleep, while the engine makes room.
  virtual Status Put(const base::HashedKey& key, Slice value) = 0;
  virtual Status Delete(const base::HashedKey& key) = 0;
  /// Deletes the keys of [begin, end). kInvalidArgument: `end` is longer than a key (as in a
  /// batch), or lies before `begin`.
  virtual Status DeleteRange(Slice begin, Slice end) = 0;
  /// Applies all operations or none, for readers and for recovery. kInvalidArgument: the batch is
  /// larger than the engine accepts.
  virtual Status Write(const WriteBatch& batch, WriteProgress* progress) = 0;
  Status Write(const WriteBatch& batch);
  /// Applies the operations one after another, as if each came by its own call, in one go
  /// (migration). `progress` counts those that are stored at the log's level (after kIo: none,
  /// though they may be stored). If an operation is invalid, or its update function fails, the
  /// others are applied all the same. After any other failure the rest is not tried. Returns that
  /// failure, else the first refusal. kUpdate operations run `update(function id, argument, ...)`,
  /// which may be empty if there are none.
  using WireUpdateFn =
      std::function<Status(uint32_t function, Slice argument, Slice key, const Slice* present,
                           std::string* updated, bool* write)>;
  virtual Status Apply(Slice batch_bytes, const WireUpdateFn& update, WriteProgress* progress) = 0;
  /// Reads, modifies and writes a value, atomically against all other writes of the key.
  virtual Status Update(const base::HashedKey& key, const UpdateFn& update,
                        WriteProgress* progress) = 0;
  Status Update(const base::HashedKey& key, const UpdateFn& update);

  /// Copies the newest value (at `snapshot`; null: now) once, into the place that `allocate`
  /// returns. kNotFound: absent.
  virtual Status Get(const base::HashedKey& key, const Snapshot* snapshot,
                     const BufferAllocator& allocate) const = 0;
  /// Copies the newest value into a string.
  Status Get(const base::HashedKey& key, std::string* value,
             const Snapshot* snapshot = nullptr) const;

  virtual std::unique_ptr<Snapshot> NewSnapshot() = 0;
  virtual std::unique_ptr<Iterator> NewIterator(const IteratorOptions& options) = 0;

  /// Makes every write so far durable where a later open finds it, whatever the level of
  /// StorageOptions::wal: P2. Waits.
  virtual Status Flush() = 0;
  /// Makes every write so far durable in place: P2.
  virtual Status SyncLog() = 0;
  /// Drops data that no reader sees any more. Waits.
  virtual Status Compact() = 0;
  /// Waits until no background work is due. kReadOnly: some of it failed, or a sync of the log.
  virtual Status WaitIdle() = 0;
  /// Reads everything and verifies every checksum.
  virtual Status Verify() = 0;
  /// The failure that turned the database read-only, or OK.
  virtual Status background_status() const = 0;
  /// Adds its counts since open, and its sizes now, by the names of docs/statistics.md.
  virtual void AddStatistics(quire::Statistics* to) const = 0;

  /// Interfaces that only some engines have; null: not this one.
  virtual NeighbourReadable* neighbour_readable() { return nullptr; }
  virtual Capturable* capturable() { return nullptr; }
  virtual Backable* backable() { return nullptr; }
};

/// The identity of a part's set of files, for processes that read the files themselves.
struct TablesPosition {
  uint64_t store_id = 0;
  uint64_t edition = 0;   ///< rises with each change of the set of files
  bool has_base = false;  ///< keys that no file contains may be in the base
};

/// A part whose memory or files, or both, can be read by other processes than its owner.
class NeighbourReadable {
 public:
  virtual ~NeighbourReadable() = default;
  /// Looks only into memory: the MemTables. For storage groups. *decided: whether the result is
  /// final; kNotFound is a tombstone then. If it is not, look into the tables: those of `tables`
  /// (may be null) or of a later edition.
  virtual Status GetFromMemory(const base::HashedKey& key, const BufferAllocator& allocate,
                               bool* decided, TablesPosition* tables) const = 0;
  /// Returns the name and size that neighbours need to attach a PeerReader; empty if memory is not
  /// shared.
  virtual std::string region_name() const = 0;
  virtual uint64_t region_bytes() const = 0;
  /// Removes the region's name: all neighbours are attached (or never will be).
  virtual void UnlinkRegion() = 0;
};

/// The files of a part at one moment. None of them is removed or changed while the capture exists.
/// It must not outlive the engine.
class Capture {
 public:
  struct File {
    std::string name;  ///< within the part's directory
    uint64_t file_bytes = 0;
    /// random, chosen when the file was made: of a table TableInfo::file_id, of a value segment
    /// SegmentHeader::generation. Names are used again if a database goes back to an older state.
    uint64_t identity = 0;
  };
  virtual ~Capture() = default;
  virtual const std::vector<File>& files() const = 0;
  /// Returns the contents of the file StoredParts::marker() for a part of these files alone.
  virtual const std::string& manifest() const = 0;
};

/// A part whose state at one moment can be copied while writes go on: for checkpoints.
class Capturable {
 public:
  virtual ~Capturable() = default;
  /// Flushes, and captures the state then. It may contain writes that are made meanwhile.
  virtual Result<std::shared_ptr<const Capture>> NewCapture() = 0;
};

/// A part that can have a BackingStore below it, for opens by another number of ranks.
class Backable {
 public:
  virtual ~Backable() = default;
  /// Applies puts and deletes of keys for which this part itself, without its base, has neither
  /// value nor tombstone; ignores operations on other keys. Otherwise as StorageEngine::Apply.
  virtual Status Fill(Slice batch_bytes, WriteProgress* progress) = 0;
  /// Removes the base: from now on a key that the part does not contain is absent. Gets, updates
  /// and iterators that already use the base continue with it, and keep it alive until they end.
  /// Not inside an EpochGuard.
  virtual void DetachBackingStore() = 0;
};

}  // namespace quire::engine
