/// Runs the background jobs of one database: schedules those that are due, one of each kind at a
/// time, and lets callers wait for them.
///
/// Layer      lsm (internal)
/// Threads    any. Add before all others. Functions whose name ends in Locked, idle() and closing()
///            are called under the database's mutex; functions with a lock as argument release it
///            for a while.
/// Invariants a job counts until it is over, and touches nothing of the database after that; a job
///            that fails ends writes (WriteHealth); no job is scheduled after a failure or Close
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <utility>

#include "base/threads/executor.h"
#include "lsm/jobs/write_health.h"
#include "quire/status.h"

namespace quire::lsm {

class BackgroundJobs {
 public:
  /// One kind of job.
  struct Kind {
    std::function<bool()> due;   ///< under the mutex
    std::function<void()> run;   ///< under no lock
    bool may_take_long = false;  ///< as Executor::ScheduleLong
  };

  /// All outlive this. The condition is notified when a job is over.
  BackgroundJobs(base::Executor& executor, std::mutex& mutex, std::condition_variable& changed,
                 WriteHealth& health)
      : executor_(executor), mutex_(mutex), changed_(changed), health_(health) {}
  BackgroundJobs(const BackgroundJobs&) = delete;
  BackgroundJobs& operator=(const BackgroundJobs&) = delete;
  /// Adds a kind. Those that were added first are scheduled first.
  void Add(Kind kind) { kinds_.push_back({std::move(kind)}); }

  /// Schedules each kind that is due and not yet queued.
  void ScheduleDueLocked();
  /// Returns whether no job is queued or running.
  bool idle() const { return job_count_ == 0; }
  /// Returns whether Close was called: jobs that run should come to their end.
  bool closing() const { return closing_; }
  /// Returns whether jobs may work: not after a failure, nor once the database is being closed.
  bool MayWorkLocked() const { return !closing_ && health_.failure().ok(); }

  /// Makes a deterministic executor run one job; false: it ran none. State that the caller read
  /// before may have changed at return.
  bool RunOneUnlocked(std::unique_lock<std::mutex>& lock);
  /// Waits until `done()`, which is called under the mutex.
  ///
  /// Errors  kReadOnly: a failure ended writes. Those of WriteHealth::shortage.
  Status WaitLocked(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done);
  /// Stops scheduling, and waits until no job is left. Takes the mutex.
  void Close();

 private:
  struct Job {
    Kind kind;
    bool queued = false;
  };
  void ScheduleLocked(Job& job);
  void Run(Job& job);

  base::Executor& executor_;
  std::mutex& mutex_;
  std::condition_variable& changed_;
  WriteHealth& health_;
  std::list<Job> kinds_;  // jobs that run refer to their elements
  // Guarded by mutex_.
  int job_count_ = 0;  // queued or running
  bool closing_ = false;
};

}  // namespace quire::lsm
