/// Flushes a database's immutable MemTables in the background, the oldest first, one at a time.
///
/// Layer      lsm (internal)
/// Source     PapyrusKV, SC17, section 2.4 (flushing); docs/decisions/0008-compaction.md
/// Threads    any. Functions whose name ends in Locked are called under
///            the database's mutex, all others without it.
/// Invariants one flush at a time; none while there are too many runs or a merge has its turn; none
///            after a shortage until that is cleared
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/threads/executor.h"
#include "lsm/jobs/background_jobs.h"
#include "lsm/jobs/cleaner.h"
#include "lsm/jobs/compaction_schedule.h"
#include "lsm/jobs/job_parts.h"
#include "lsm/jobs/write_health.h"
#include "lsm/version/version_set.h"
#include "quire/status.h"

namespace quire::lsm {

class Flusher {
 public:
  /// Parts of the database. All outlive this.
  struct Parts {
    base::Executor& executor;
    std::mutex& mutex;
    std::condition_variable& changed;
    VersionSet& versions;
    CompactionSchedule& compactions;
    WriteHealth& health;
    BackgroundJobs& jobs;
    Cleaner& cleaner;
    const JobParts& job_parts;  ///< complete before the first job
  };
  explicit Flusher(const Parts& parts) : parts_(parts) {}
  Flusher(const Flusher&) = delete;
  Flusher& operator=(const Flusher&) = delete;

  /// Returns whether a flush is due.
  bool DueLocked() const;
  /// Returns whether to schedule a job that checks whether a flush is due.
  bool WantedLocked() const;
  /// Flushes the oldest immutable MemTable, if that is due; false: not due, or the flush failed.
  bool FlushOnce();

 private:
  bool FlushableLocked() const;
  void TryRefusedMerges();

  const Parts parts_;
  bool flushing_ = false;  // guarded by the mutex
};

}  // namespace quire::lsm
