/// Makes room for writes: the full MemTable becomes immutable, and a prepared one replaces it.
/// While the flushing queue is full a writer waits, asleep, or stops until it is called again.
///
/// Layer      lsm (internal)
/// Source     PapyrusKV, SC17, section 2.4 (the flushing queue);
///            docs/decisions/0016-writes-without-room.md
/// Threads    any; Attach before all others. Functions whose name ends in Locked are called under
///            the database's mutex, all others without it, and outside of an EpochGuard.
/// Invariants a MemTable is closed only when the next one is ready; no part of a write that stopped
///            is retried before there is room
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
  /// Called once, when the database is opened.
  void Attach(MemTablePool* pool) { pool_ = pool; }

  /// Returns when another MemTable than that of `full_generation` is active. If the write must not
  /// wait, returns kBusy instead and sets progress->waits.
  ///
  /// Errors  kReadOnly: a failure ended writes. kBusy: iterators pin all MemTables. kNoSpace,
  ///         kOutOfMemory: there is too little for a MemTable or a flush.
  Status MakeRoom(uint64_t full_generation, engine::WriteProgress* progress);
  /// MakeRoom for a write that waits.
  Status MakeRoom(uint64_t full_generation);
  /// Makes room for a write that stopped for lack of it. No part of the write is retried before
  /// there is room, because each attempt would store a large value once more. Errors as of
  /// MakeRoom.
  Status GoOn(engine::WriteProgress* progress);
  /// Closes a MemTable that takes no more values, after the write that filled it. That write is
  /// done: only the next write that finds no room returns a failure.
  void RotateEarly(uint64_t full_generation, bool may_wait);
  /// Closes the active MemTable, and waits until all that was written before is in tables.
  ///
  /// Errors  as of MakeRoom and BackgroundJobs::WaitLocked
  Status Flush();

  /// Returns whether the next MemTable is to be prepared in the background.
  bool PrepareDueLocked() const;
  /// Prepares it, if that is due.
  void PrepareIfDue();
  /// Returns the MemTable that was prepared last to the pool, when the database is closed.
  void DropPrepared() { ready_.reset(); }

 private:
  struct Room {
    bool queue_full = false;
    bool slot_free = false;
    bool outside = false;    // a MemTable outside of the pool may be made
    uint64_t pinned_ns = 0;  // for how long no slot has been free, though the queue has room
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
