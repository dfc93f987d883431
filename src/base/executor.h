/// Runs background jobs: a thread pool, or (for deterministic tests) the caller's own thread, on
/// demand.
///
/// Layer      base
/// Threads    Schedule() from any thread. Jobs must not throw.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "quire/status.h"

namespace quire::base {

class Executor {
 public:
  virtual ~Executor() = default;
  /// Queues `job`; it runs once, later, never inside this call. Bounded use: a client keeps at most
  /// one job per kind queued.
  virtual void Schedule(std::function<void()> job) = 0;
  /// The same for a job that may take seconds or more: it calls RunWaiting() now and then.
  virtual void ScheduleLong(std::function<void()> job) { Schedule(std::move(job)); }
  /// Called within a long job, without locks: runs the other jobs that wait for a thread at this
  /// moment. So a client's merge keeps no other client from its work, even if there is but one
  /// thread. A long job runs so within one other at most; it does but what cannot wait. A
  /// deterministic executor runs none.
  virtual void RunWaiting() {}
  /// Returns the number of long jobs that the calling thread is in: above 1, the innermost one runs
  /// inside RunWaiting() of another.
  virtual int LongJobs() const { return 0; }
  /// Called by a thread that is about to wait for background work: a deterministic executor runs
  /// one queued job and answers true; a thread pool answers false (its threads are on it) and the
  /// caller sleeps.
  virtual bool RunOne() = 0;
  /// Waits until no job is queued or running; a deterministic executor runs them. Takes no memory.
  /// Not from within a job.
  virtual void WaitIdle() = 0;
  /// Threads that run jobs beside their callers: none of a deterministic one.
  virtual int thread_count() const = 0;
};

/// A pool of `thread_count` threads that sleep when idle. Destruction finishes the queued jobs
/// first.
///
/// Errors     kOutOfMemory  The system refused a thread; none of the pool is left.
Result<std::unique_ptr<Executor>> NewThreadPool(int thread_count, const char* name);
/// Runs jobs only inside RunOne(), in FIFO order: same calls, same interleaving.
std::unique_ptr<Executor> NewManualExecutor();

}  // namespace quire::base
