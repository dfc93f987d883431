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
  /// Queues a job that may take seconds or more; the job calls RunWaiting() from time to time.
  virtual void ScheduleLong(std::function<void()> job) { Schedule(std::move(job)); }
  /// Runs the other jobs that wait for a thread at this moment; a long job calls it, without locks.
  /// So a client's merge does not delay other clients, even with a single thread. At most one long
  /// job runs inside another one, and then does only what cannot wait. A deterministic executor
  /// runs no jobs here.
  virtual void RunWaiting() {}
  /// Returns the number of long jobs that the calling thread is in: above 1, the innermost one runs
  /// inside RunWaiting() of another.
  virtual int LongJobs() const { return 0; }
  /// Called by a thread that is about to wait for background work. A deterministic executor runs
  /// one queued job and returns true; a thread pool returns false, because its own threads run the
  /// jobs, and the caller sleeps.
  virtual bool RunOne() = 0;
  /// Waits until no job is queued or running; a deterministic executor runs them. Allocates no
  /// memory. Must not be called from a job.
  virtual void WaitIdle() = 0;
  /// Returns the number of threads that run jobs; 0 for a deterministic executor.
  virtual int thread_count() const = 0;
};

/// Creates a pool of `thread_count` threads that sleep when idle. Its destruction finishes the
/// queued jobs first.
///
/// Errors     kOutOfMemory  The system refused a thread; no thread of the pool remains.
Result<std::unique_ptr<Executor>> NewThreadPool(int thread_count, const char* name);
/// Creates an executor that runs jobs only inside RunOne(), in FIFO order: the same calls give the
/// same interleaving.
std::unique_ptr<Executor> NewManualExecutor();

}  // namespace quire::base
