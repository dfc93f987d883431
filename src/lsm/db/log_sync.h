/// Syncs a database's log for all writers that wait for it: one sync at a time (group commit).
///
/// Layer      lsm (internal)
/// Source     docs/durability.md
/// Threads    any; Attach before all others. No caller holds the database's mutex. Lock order:
///            mutex(), then the database's.
/// Invariants values are synced before the records that refer to them, older log segments before
///            younger ones; a sync that failed is never tried again
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "lsm/jobs/write_health.h"
#include "lsm/version/version_set.h"
#include "lsm/vlog/value_log.h"
#include "quire/status.h"

namespace quire::lsm {

class LogSync {
 public:
  /// For the database in `directory`. Failures of syncs go to `health`.
  LogSync(std::string directory, VersionSet& versions, WriteHealth& health)
      : directory_(std::move(directory)), versions_(versions), health_(health) {}
  LogSync(const LogSync&) = delete;
  LogSync& operator=(const LogSync&) = delete;
  /// Called once, when the database is opened.
  void Attach(ValueLog* values) { values_ = values; }

  /// Held during a sync of log segments, also by VersionSet.
  std::mutex& mutex() { return mutex_; }

  /// Makes the write at `lsn`, which is stored, durable (P2).
  ///
  /// Errors  kIo: the write is stored, and readers see it, but a loss of power may take it.
  Status SyncWrite(uint64_t lsn);
  /// Makes every write durable that is complete by now.
  ///
  /// Errors  kNoSpace, kOutOfMemory: no sync was tried, and a later one can succeed. kReadOnly: an
  ///         earlier sync failed. All others: this one failed, and no write is accepted any more.
  Status SyncAll();

 private:
  Status SyncThrough(uint64_t lsn);
  Status SyncMemory(const Version& version, uint64_t* end_lsn);
  Status StoredUnsynced(const Status& why) const;

  const std::string directory_;
  VersionSet& versions_;
  WriteHealth& health_;
  ValueLog* values_ = nullptr;  // set by Attach
  std::mutex mutex_;
  std::atomic<uint64_t> durable_lsn_{0};  // everything below it is durable
};

}  // namespace quire::lsm
