/// Work that is done in the background one piece after another: what a rank appends to its part.
///
/// Layer      dataset
/// Threads    any
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "base/threads/executor.h"
#include "comm/exchange/exchange.h"
#include "quire/status.h"

namespace quire::dataset {

class SerialQueue : public std::enable_shared_from_this<SerialQueue> {
 public:
  /// Both arguments must exist until all work has run. (Queued work holds a reference to the queue,
  /// so the queue must not own the threads that run it.) `executor` null: work is done at once, for
  /// a rank without threads for which other ranks may wait.
  SerialQueue(base::Executor* executor, comm::Exchange* exchange)
      : executor_(executor), exchange_(exchange) {}

  /// Runs `work` once, after all earlier work; inside this call if there is no memory to schedule
  /// it. The caller must limit the amount of queued work: it waits, or adds no more, until earlier
  /// work has run. Throws std::bad_alloc if there is no memory to store `work`; then it does not
  /// run.
  void Run(std::function<Status()> work);
  /// Returns the first failure since the last ClearError.
  Status status() const;
  void ClearError();
  /// Waits until queued work has made `done` true.
  ///
  /// Errors  kTimedOut: no work was finished for the length of a deadline.
  Status WaitUntil(const char* what, const std::function<bool()>& done);
  /// Waits until all work has run; returns its first failure, or kTimedOut as WaitUntil: then some
  /// of it may still be running.
  Status Drain();
  bool idle() const;
  /// Waits until all work has run, however long a device takes: for owners of memory that the work
  /// uses, before they are destroyed.
  void WaitUntilIdle();

 private:
  bool HandOver();
  void RunHere();
  bool RunOne();
  uint64_t finished() const;

  base::Executor* const executor_;
  comm::Exchange* const exchange_;
  mutable std::mutex mutex_;
  std::condition_variable rests_;
  std::deque<std::function<Status()>> queue_;
  bool running_ = false;
  uint64_t finished_ = 0;
  Status status_;
};

}  // namespace quire::dataset
