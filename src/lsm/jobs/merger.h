/// Merges a database's runs in the background, and empties value segments that are mostly dead; for
/// Compact, all runs and all such segments.
///
/// Layer      lsm (internal)
/// Source     docs/decisions/0008-compaction.md
/// Threads    any, without the database's mutex. Run on a thread of the executor.
/// Invariants a merge is done within another one only if flushes wait for it; a merge lets flushes
///            and other databases work on its thread
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "lsm/jobs/compaction_schedule.h"
#include "lsm/jobs/flusher.h"
#include "lsm/jobs/job_parts.h"
#include "lsm/vlog/value_resolver.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::lsm {

class Merger {
 public:
  /// Calls of the database that merges make, under no lock.
  struct Calls {
    std::function<Status(Slice key, Slice value, log::ValueRef* reference)> append_value;
    /// Prepares the next MemTable, if that is due.
    std::function<void()> prepare_if_due;
    const ValueResolver* values = nullptr;
  };
  /// All parts outlive this.
  Merger(const Flusher::Parts& parts, Flusher& flusher, Calls calls)
      : parts_(parts), flusher_(flusher), calls_(std::move(calls)) {}
  Merger(const Merger&) = delete;
  Merger& operator=(const Merger&) = delete;

  /// Does one merge or collection, if one is due, and schedules the next behind the waiting jobs.
  /// Within a merge of another database, does a short merge if this database's flushes wait for it.
  void Run();
  /// Merges all runs into one, and empties the value segments that are mostly dead then. Returns
  /// when both are done.
  ///
  /// Errors  kReadOnly: a failure ended writes. kNoSpace, kOutOfMemory: the merge found no room.
  Status CompactAll();

 private:
  using Size = CompactionSchedule::Size;
  bool CompactOnce(Size size);
  bool CollectOnce();
  Status CollectAll();
  Status PublishNow();
  bool RunMerge(CompactionSchedule::Merge& merge, int depth);
  void EndMerge(CompactionSchedule::Merge& merge, const Status& status);
  bool Interrupted(int depth, uint64_t merged_bytes);
  uint64_t ExchangeTurn(uint64_t bytes);

  const Flusher::Parts parts_;
  Flusher& flusher_;
  const Calls calls_;
};

}  // namespace quire::lsm
