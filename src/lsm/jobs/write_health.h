/// Records why a database accepts no writes, or cannot flush at present: the failures of its
/// background work.
///
/// Layer      lsm (internal)
/// Threads    any. Functions whose name ends in Locked, failure() and shortage() are called under
///            the database's mutex; all others without it.
/// Invariants the first failure stays: after it no write is accepted until the database is opened
///            again. A shortage ends when a flush is requested again.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include "quire/status.h"

namespace quire::lsm {

class WriteHealth {
 public:
  /// The mutex is the database's, which is in `directory`; the condition is notified of failures.
  WriteHealth(std::string directory, std::mutex& mutex, std::condition_variable& changed)
      : directory_(std::move(directory)), mutex_(mutex), changed_(changed) {}
  WriteHealth(const WriteHealth&) = delete;
  WriteHealth& operator=(const WriteHealth&) = delete;

  /// Records that `what` failed: a shortage (IsShortage) until it is cleared, any other failure for
  /// good. A shortage is logged once until a flush is done.
  void FailLocked(const Status& status, const char* what) noexcept;
  /// As FailLocked. Takes the mutex.
  void Fail(const Status& status, const char* what) noexcept;

  /// Returns whether writes are refused; WriteStatus then returns why. Takes no lock.
  bool refused() const { return refused_.load(std::memory_order_relaxed); }
  /// Returns kReadOnly if a failure ended writes. Takes the mutex.
  Status WriteStatus() const;
  /// As WriteStatus.
  Status WriteStatusLocked() const;
  /// Returns the failure that ended writes, for good.
  const Status& failure() const { return failure_; }

  /// Returns why the last flush failed, if room, memory or descriptors are short.
  const Status& shortage() const { return shortage_; }
  /// Called before a flush is tried again.
  void ClearShortageLocked() { shortage_ = Status(); }
  /// Called when a flush is done: the next shortage is logged.
  void FlushedLocked() { shortage_logged_ = false; }

  /// Logs a failure that has no other effect, as a warning. OK is not logged.
  void LogFailure(const Status& status) const noexcept;

 private:
  const std::string directory_;
  std::mutex& mutex_;
  std::condition_variable& changed_;
  std::atomic<bool> refused_{false};  // failure_ says why
  // Guarded by mutex_.
  Status failure_;
  Status shortage_;
  bool shortage_logged_ = false;
};

}  // namespace quire::lsm
