/// The failures of relaxed writes, until the next fence reports them.
///
/// Layer      kv
/// Source     docs/durability.md: applied, not applied, unknown; unknown is never reported as
///            failed
/// Threads    any
#pragma once

#include <cstdint>
#include <mutex>

#include "quire/status.h"

namespace quire::kv {

/// Relaxed writes that failed.
struct WriteFailures {
  uint64_t lost_count = 0;
  uint64_t unknown_count = 0;
  int first_owner = 0;
  Status first;  ///< OK: there are none

  /// Returns OK, or the first failure, its text with the counts.
  Status ToStatus() const;
};

class FailureLog {
 public:
  /// Adds `count` operations that were not applied at rank `owner`.
  void AddLost(int owner, uint64_t count, const Status& why);
  /// Adds `count` operations of which it is unknown whether rank `owner` applied them.
  void AddUnknown(int owner, uint64_t count, const Status& why);
  /// Returns the failures since the last call, and forgets them.
  WriteFailures Take();
  /// Puts back failures that were not reported: the next Take() returns them, before later ones.
  void PutBack(WriteFailures untold);
  /// Returns whether Take() would return OK.
  bool empty() const;

 private:
  void Add(int owner, uint64_t WriteFailures::*counter, uint64_t count, const Status& why);

  mutable std::mutex mutex_;
  WriteFailures failures_;
};

}  // namespace quire::kv
