/// One rank's part of a database, as the floors above see it: what every storage engine does, and
/// the faces that some have besides.
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

#include "base/hashed_key.h"
#include "engine/iterator.h"
#include "engine/write_batch.h"
#include "quire/buffer_allocator.h"
#include "quire/database.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::engine {

enum class OpenFlags { kOpenOrCreate, kMustExist, kMustNotExist };

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

  // State of the engine from one call to the next.
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

class NeighbourReadable;
class Capturable;
class Backable;

class StorageEngine {
 public:
  /// Waits for background work. Keeps what the level of StorageOptions::wal promises.
  virtual ~StorageEngine() = default;

  /// One write, at the level of StorageOptions::wal. kReadOnly after a background failure (text:
  /// which): not applied. kNoSpace: not applied. kBusy: there was no room for it for
  /// EngineEnvironment::pinned_wait_ms_max; not applied. kIo: the outcome is unknown. If the sync
  /// of WalMode::kSync failed, the write is stored and seen, but a loss of power may take it. May
  /// block, asleep, while the engine makes room.
  virtual Status Put(const base::HashedKey& key, Slice value) = 0;
  virtual Status Delete(const base::HashedKey& key) = 0;
  /// The keys of [begin, end). kInvalidArgument, as of a batch: `end` is longer than a key; here
  /// also if it lies before `begin`.
  virtual Status DeleteRange(Slice begin, Slice end) = 0;
  /// All operations or none: for readers and for recovery. kInvalidArgument: the batch is larger
  /// than the engine takes at once.
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
  /// Read-modify-write, atomic for the key against all other writes of it.
  virtual Status Update(const base::HashedKey& key, const UpdateFn& update,
                        WriteProgress* progress) = 0;
  Status Update(const base::HashedKey& key, const UpdateFn& update);

  /// The newest value (at `snapshot`, null: now), copied once, into the place that `allocate`
  /// gives. kNotFound: absent.
  virtual Status Get(const base::HashedKey& key, const Snapshot* snapshot,
                     const BufferAllocator& allocate) const = 0;
  /// The same into a string.
  Status Get(const base::HashedKey& key, std::string* value,
             const Snapshot* snapshot = nullptr) const;

  virtual std::unique_ptr<Snapshot> NewSnapshot() = 0;
  virtual std::unique_ptr<Iterator> NewIterator(const IteratorOptions& options) = 0;

  /// Every write so far where a later open finds it, whatever the level of StorageOptions::wal: P2.
  /// Waits.
  virtual Status Flush() = 0;
  /// Makes every write so far durable in place: P2.
  virtual Status SyncLog() = 0;
  /// Drops what no reader sees any more. Waits.
  virtual Status Compact() = 0;
  /// Waits until no background work is due. kReadOnly: some of it failed, or a sync of the log.
  virtual Status WaitIdle() = 0;
  /// Reads everything and verifies every checksum.
  virtual Status Verify() = 0;
  /// The failure that turned the database read-only, or OK.
  virtual Status background_status() const = 0;
  /// Adds its counts since open, and its sizes now, by the names of docs/statistics.md.
  virtual void AddStatistics(quire::Statistics* to) const = 0;

  /// Faces that only some engines have; null: not this one.
  virtual NeighbourReadable* neighbour_readable() { return nullptr; }
  virtual Capturable* capturable() { return nullptr; }
  virtual Backable* backable() { return nullptr; }
};

/// Which files of a part there are, for those who read them themselves.
struct TablesPosition {
  uint64_t store_id = 0;
  uint64_t edition = 0;   ///< rises with each change of the set of files
  bool has_base = false;  ///< what no file knows may be in the base
};

/// A part whose memory, files or both can be read by others than its owner.
class NeighbourReadable {
 public:
  virtual ~NeighbourReadable() = default;
  /// Only in memory: MemTables (and says whether it is certain). For storage groups: kNotFound with
  /// *decided = true is a tombstone; *decided = false: look into the tables, of `tables` (may be
  /// null) or of a later edition.
  virtual Status GetFromMemory(const base::HashedKey& key, const BufferAllocator& allocate,
                               bool* decided, TablesPosition* tables) const = 0;
  /// The name and size that neighbours need to attach a PeerReader; empty if memory is not shared.
  virtual std::string region_name() const = 0;
  virtual uint64_t region_bytes() const = 0;
  /// All neighbours are attached (or never will): take the name away.
  virtual void UnlinkRegion() = 0;
};

/// The files of a part at one moment. None of them goes or changes as long as it lives, which is
/// not longer than the engine.
class Capture {
 public:
  struct File {
    std::string name;  ///< within the part's directory
    uint64_t file_bytes = 0;
    /// random, chosen when the file was made: of a table TableInfo::file_id, of a value segment
    /// SegmentHeader::generation. Names come again, where a database goes back to an older state.
    uint64_t identity = 0;
  };
  virtual ~Capture() = default;
  virtual const std::vector<File>& files() const = 0;
  /// The contents of the file StoredParts::marker() of a part of these files alone.
  virtual const std::string& manifest() const = 0;
};

/// A part of which a moment can be held, to be copied while writes go on: for checkpoints.
class Capturable {
 public:
  virtual ~Capturable() = default;
  /// Flushes, and holds on to what there is then. Writes that go on meanwhile may be in it or not.
  virtual Result<std::shared_ptr<const Capture>> NewCapture() = 0;
};

/// A part that can have a BackingStore below it: for open with another number of ranks.
class Backable {
 public:
  virtual ~Backable() = default;
  /// Puts and deletes of keys that this part knows nothing of, neither value nor tombstone, its
  /// base left aside; operations on others do nothing. As StorageEngine::Apply in the rest.
  virtual Status Fill(Slice batch_bytes, WriteProgress* progress) = 0;
  /// From now on there is no base: a key that is known nowhere is absent. Gets and updates that ask
  /// it and iterators over it end as they began, and keep it for so long. Not inside an EpochGuard.
  virtual void DetachBackingStore() = 0;
};

}  // namespace quire::engine
