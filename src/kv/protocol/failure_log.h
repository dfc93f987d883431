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

  /// OK, or the first failure, its text with the counts.
  Status ToStatus() const;
};

class FailureLog {
 public:
  /// `count` operations were not applied at rank `owner`.
  void AddLost(int owner, uint64_t count, const Status& why);
  /// Whether `count` operations were applied at rank `owner` cannot be known.
  void AddUnknown(int owner, uint64_t count, const Status& why);
  /// The failures since the last call. Forgets them.
  WriteFailures Take();
  /// They were not told after all: the next Take() has them, before those that came since.
  void PutBack(WriteFailures untold);
  /// True where Take() would answer OK.
  bool empty() const;

 private:
  void Add(int owner, uint64_t WriteFailures::*counter, uint64_t count, const Status& why);

  mutable std::mutex mutex_;
  WriteFailures failures_;
};

}  // namespace quire::kv
