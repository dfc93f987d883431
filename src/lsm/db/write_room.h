/// Makes room for writes: the full MemTable becomes immutable, and a prepared one takes its place.
/// While the flushing queue is full a writer waits, asleep, or stops until it is asked to go on.
///
/// Layer      lsm (internal)
/// Source     PapyrusKV, SC17, section 2.4 (the flushing queue);
///            docs/decisions/0016-writes-without-room.md
/// Threads    any; Attach before all others. Functions whose name ends in Locked are called under
///            the database's mutex, all others without it, and outside of an EpochGuard.
/// Invariants a MemTable is closed only when the next one is ready; nothing of a write that stopped
///            is tried until there is room
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "engine/storage_engine.h"
#include "io/files/file_system.h"
#include "lsm/jobs/background_jobs.h"
#include "lsm/jobs/counters.h"
#include "lsm/jobs/write_health.h"
#include "lsm/memtable/memtable_pool.h"
#include "lsm/version/version_set.h"
#include "quire/options.h"
#include "quire/status.h"

namespace quire::lsm {

class WriteRoom {
 public:
  /// Parts of the database. All outlive this.
  struct Parts {
    io::FileSystem& fs;
    const std::string& directory;
    const StorageOptions& options;
    std::mutex& mutex;
    std::condition_variable& changed;
    VersionSet& versions;
    WriteHealth& health;
    BackgroundJobs& jobs;
    StorageCounters& counters;
  };
  /// A write fails if iterators pin all MemTables for more than `pinned_wait_ms_max`.
  WriteRoom(const Parts& parts, uint64_t pinned_wait_ms_max)
      : parts_(parts), pinned_wait_ms_max_(pinned_wait_ms_max) {}
  WriteRoom(const WriteRoom&) = delete;
  WriteRoom& operator=(const WriteRoom&) = delete;
  /// Called once, at the opening.
  void Attach(MemTablePool* pool) { pool_ = pool; }

  /// Returns when another MemTable than that of `full_generation` is active; or, if the write must
  /// not wait, with kBusy and progress->waits.
  ///
  /// Errors  kReadOnly: a failure ended writes. kBusy: iterators pin all MemTables. kNoSpace,
  ///         kOutOfMemory: a MemTable or a flush needs what is short.
  Status MakeRoom(uint64_t full_generation, engine::WriteProgress* progress);
  /// MakeRoom for a write that waits.
  Status MakeRoom(uint64_t full_generation);
  /// Makes room for a write that stopped for lack of it. Nothing of the write is tried before there
  /// is room: a large value would be stored once more by each attempt. Errors as of MakeRoom.
  Status GoOn(engine::WriteProgress* progress);
  /// Closes a MemTable that takes no more values, after the write that filled it. That write is
  /// done: a failure meets the one that finds no room.
  void RotateEarly(uint64_t full_generation, bool may_wait);
  /// Closes the active MemTable, and waits until all that was written before is in tables.
  ///
  /// Errors  as of MakeRoom and BackgroundJobs::WaitLocked
  Status Flush();

  /// Whether the next MemTable is to be prepared in the background.
  bool PrepareDueLocked() const;
  /// Prepares it, if that is due.
  void PrepareIfDue();
  /// Gives the MemTable back that was prepared last. At the end of the database.
  void DropPrepared() { ready_.reset(); }

 private:
  struct Room {
    bool queue_full = false;
    bool slot_free = false;
    bool outside = false;    // a MemTable outside of the pool may be made
    uint64_t pinned_ns = 0;  // for so long no slot is free, though the queue has room
  };
  Room LookForRoomLocked(engine::WriteProgress* progress) const;
  void RotateLocked(VersionSet::Change& change);
  Result<std::shared_ptr<PooledMemTable>> Prepare(bool outside);
  Status PrepareLocked(std::unique_lock<std::mutex>& lock, bool outside);
  Status WaitForRoomLocked(std::unique_lock<std::mutex>& lock, engine::WriteProgress* progress);
  Status RetryFlushLocked(std::unique_lock<std::mutex>& lock, bool* retried);

  const Parts parts_;
  const uint64_t pinned_wait_ms_max_;
  MemTablePool* pool_ = nullptr;  // set by Attach
  // Guarded by the mutex.
  std::shared_ptr<PooledMemTable> ready_;  // the next active MemTable, prepared
  bool prepare_refused_ = false;           // no room: the writer that needs a MemTable tries again
  bool preparing_ = false;
  uint64_t early_generation_ = 0;  // of the MemTable that Flush closed last
};

}  // namespace quire::lsm
