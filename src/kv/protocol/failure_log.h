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

class FailureLog {
 public:
  /// `count` operations were not applied at rank `owner`.
  void AddLost(int owner, uint64_t count, const Status& why);
  /// Whether `count` operations were applied at rank `owner` cannot be known.
  void AddUnknown(int owner, uint64_t count, const Status& why);
  /// OK, or the first failure since the last call, its text with the counts. Forgets them.
  Status Take();
  /// True where Take() would answer OK.
  bool empty() const;

 private:
  void Add(int owner, uint64_t* counter, uint64_t count, const Status& why);

  mutable std::mutex mutex_;
  uint64_t lost_count_ = 0;
  uint64_t unknown_count_ = 0;
  int first_owner_ = 0;
  Status first_;
};

}  // namespace quire::kv
