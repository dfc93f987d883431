#include "lsm/jobs/merger.h"

#include <mutex>
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/core/scope_exit.h"
#include "base/threads/epoch.h"
#include "base/threads/sync_point.h"
#include "lsm/jobs/compaction_job.h"

namespace quire::lsm {

void Merger::Run() {
  const Status done = base::OrOutOfMemory([this] {
    const bool within = parts_.executor.LongJobs() > 1;
    bool urgent = false;
    bool collect = false;
    {
      const std::lock_guard<std::mutex> lock(parts_.mutex);
      urgent = within && parts_.compactions.TooManyRuns();
      collect = parts_.compactions.CollectsForCompact();
    }
    if (within) {
      if (urgent) CompactOnce(Size::kShort);
    } else if (!CompactOnce(Size::kAny) || collect) {
      CollectOnce();
    }
    return Status();
  });
  if (!done.ok()) {
    // A merge that cannot even begin is not tried again at once.
    const std::lock_guard<std::mutex> lock(parts_.mutex);
    parts_.compactions.SetShortage(done);
    parts_.changed.notify_all();
  }
  parts_.cleaner.CleanUp();
}

void Merger::EndMerge(CompactionSchedule::Merge& merge, const Status& status) {
  base::SyncPoint("lsm.merge.end");
  parts_.cleaner.CleanUp();
  const Status told = status.ok() ? status : base::OrOutOfMemory([&] {
    return status.WithContext("merging tables in " + parts_.job_parts.tables.directory);
  });
  if (status.code() == Code::kNoSpace) {
    const Result<uint64_t> free_bytes =
        parts_.job_parts.tables.fs->FreeBytes(parts_.job_parts.tables.directory);
    const std::lock_guard<std::mutex> lock(parts_.mutex);
    parts_.compactions.Refuse(merge.inputs(), told, free_bytes);
  }
  const std::lock_guard<std::mutex> lock(parts_.mutex);
  parts_.compactions.End(merge, told);
  if (IsShortage(status)) {
    parts_.compactions.SetShortage(told);
  } else if (!status.ok() && !parts_.jobs.closing()) {
    parts_.health.FailLocked(status, "merging tables");
  }
  parts_.jobs.ScheduleDueLocked();
}

// Does the merge that is due, if any. A merge with another size than kAny runs inside another
// merge.
bool Merger::CompactOnce(Size size) {
  const int depth = size == Size::kAny ? 0 : 1;
  CompactionSchedule::Merge merge(parts_.compactions);
  {
    const std::lock_guard<std::mutex> lock(parts_.mutex);
    if (!parts_.jobs.MayWorkLocked() || !parts_.compactions.Begin(merge, size)) return false;
  }
  return RunMerge(merge, depth);
}

// Rewrites one table that refers to a mostly dead value segment, its values into the open one.
bool Merger::CollectOnce() {
  CompactionSchedule::Merge merge(parts_.compactions);
  {
    const std::lock_guard<std::mutex> lock(parts_.mutex);
    if (!parts_.jobs.MayWorkLocked() || !parts_.compactions.BeginCollection(merge)) return false;
  }
  return RunMerge(merge, 0);
}

bool Merger::RunMerge(CompactionSchedule::Merge& merge, int depth) {
  CompactionJob::Calls calls;
  calls.interrupted = [this, depth](uint64_t bytes) { return Interrupted(depth, bytes); };
  calls.append_value = calls_.append_value;
  calls.log_failure = [this](const Status& failure) { parts_.health.LogFailure(failure); };
  calls.values = calls_.values;
  const Status status = base::OrOutOfMemory(
      [&] { return CompactionJob(parts_.job_parts, merge.inputs(), std::move(calls)).Run(); });
  EndMerge(merge, status);
  return status.ok();
}

// Does work that cannot wait for the end of a merge, because there may be only one thread, which
// other databases and datasets use, too. `merged_bytes` counts from the last call. Returns true if
// the merge must be given up.
bool Merger::Interrupted(int depth, uint64_t merged_bytes) {
  bool flush = false;
  bool merge = false;
  {
    const std::lock_guard<std::mutex> lock(parts_.mutex);
    if (!parts_.jobs.MayWorkLocked()) return true;
    // The outer merge must come to its end: a merge within it is done only where flushes wait for
    // it, and has turns of its own.
    parts_.compactions.Merged(merged_bytes);
    flush = flusher_.DueLocked();
    merge = depth == 0 && parts_.compactions.TooManyRuns() && parts_.compactions.NewerDue();
  }
  calls_.prepare_if_due();
  if (flush) flusher_.FlushOnce();
  parts_.executor.RunWaiting();
  if (!merge) return false;
  const uint64_t turn = ExchangeTurn(0);
  CompactOnce(Size::kNewer);
  ExchangeTurn(turn);
  return false;
}

uint64_t Merger::ExchangeTurn(uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(parts_.mutex);
  return parts_.compactions.ExchangeTurn(bytes);
}

Status Merger::CompactAll() {
  // Values that were overwritten or deleted in the open value segment can be collected once it is
  // closed and no write into it is under way.
  QUIRE_RETURN_IF_ERROR(parts_.job_parts.values->Seal());
  // No merge may publish between the look at the MemTables and the judgement of the segments: it
  // would give up a segment to which a record in a younger MemTable refers.
  parts_.versions.ObserveSegments();
  base::EpochSynchronize();
  {
    std::unique_lock<std::mutex> lock(parts_.mutex);
    const uint64_t mine = parts_.compactions.AskForAll();
    parts_.jobs.ScheduleDueLocked();
    const auto done = [&] { return parts_.compactions.DidAll(mine); };
    QUIRE_RETURN_IF_ERROR(parts_.jobs.WaitLocked(
        lock, [&] { return done() || !parts_.compactions.shortage().ok(); }));
    QUIRE_RETURN_IF_ERROR(parts_.health.WriteStatusLocked());  // a merge that failed is over, too
    QUIRE_RETURN_IF_ERROR(done() ? parts_.compactions.outcome_of_all()
                                 : parts_.compactions.shortage());
  }
  QUIRE_RETURN_IF_ERROR(PublishNow());  // updates the state of the value segments
  const Status collected = CollectAll();
  parts_.cleaner.CleanUp();
  return collected;
}

// Publishes although no run changed.
Status Merger::PublishNow() {
  const Status published = parts_.versions.Publish({});
  if (!published.ok() && published.code() != Code::kNoSpace) {
    // Whether the manifest was replaced may not be known: nothing may be built on it.
    parts_.health.Fail(published, "publishing");
  }
  return published;
}

// Waits until the value segments that are mostly dead now are collected; those that come to be so
// meanwhile, since others write on, are not waited for.
Status Merger::CollectAll() {
  std::unique_lock<std::mutex> lock(parts_.mutex);
  const CompactionSchedule::Awaited due = parts_.compactions.AwaitCollection();
  const base::ScopeExit awaited(
      [&] { parts_.compactions.Forget(due); });  // before the lock is given back
  parts_.jobs.ScheduleDueLocked();
  QUIRE_RETURN_IF_ERROR(
      parts_.jobs.WaitLocked(lock, [&] { return parts_.compactions.Collected(due); }));
  QUIRE_RETURN_IF_ERROR(parts_.health.WriteStatusLocked());
  QUIRE_RETURN_IF_ERROR(parts_.compactions.collection_refused());
  return parts_.compactions.shortage();
}

}  // namespace quire::lsm
