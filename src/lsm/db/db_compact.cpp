// Compaction: when merges run, and what becomes of them; Compact.
#include <utility>

#include "base/epoch.h"
#include "base/out_of_memory.h"
#include "base/scope_exit.h"
#include "base/sync_point.h"
#include "lsm/db/db_impl.h"
#include "lsm/jobs/compaction_job.h"

namespace quire::lsm {

// One merge: the next is scheduled behind what others wait for. Within a merge of another database
// a short one, if this one's flushes wait for it.
void DbImpl::RunCompaction() {
  const Status done = base::OrOutOfMemory([this] {
    const bool within = executor_.LongJobs() > 1;
    bool urgent = false;
    bool collect = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      urgent = within && compactions_.TooManyRuns();
      collect = compactions_.CollectsForCompact();
    }
    if (within) {
      if (urgent) CompactOnce(MergeSize::kShort);
    } else if (!CompactOnce(MergeSize::kAny) || collect) {
      CollectOnce();
    }
    return Status();
  });
  if (!done.ok()) {
    // A merge that cannot even begin is not tried again at once.
    const std::lock_guard<std::mutex> lock(mutex_);
    compactions_.SetShortage(done);
    changed_.notify_all();
  }
  CleanUp();
}

void DbImpl::EndMerge(CompactionSchedule::Merge& merge, const Status& status) {
  base::SyncPoint("lsm.merge.end");
  CleanUp();
  const Status told =
      status.ok() ? status : base::OrOutOfMemory([&] {
        return status.WithContext("merging tables in " + directory_);
      });
  if (status.code() == Code::kNoSpace) {
    const Result<uint64_t> free_bytes = fs_.FreeBytes(directory_);
    const std::lock_guard<std::mutex> lock(mutex_);
    compactions_.Refuse(merge.inputs(), told, free_bytes);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  compactions_.End(merge, told);
  if (IsShortage(status)) {
    compactions_.SetShortage(told);
  } else if (!status.ok() && !jobs_.closing()) {
    health_.FailLocked(status, "merging tables");
  }
  jobs_.ScheduleDueLocked();
}

// After each flush.
void DbImpl::TryRefusedAgain() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!compactions_.HasRefused()) return;
  }
  const Result<uint64_t> free_bytes = fs_.FreeBytes(directory_);
  const std::lock_guard<std::mutex> lock(mutex_);
  compactions_.TryRefusedAgain(free_bytes);
}

// Does the merge that is due, if one is. One that is not of any size is within another merge.
bool DbImpl::CompactOnce(MergeSize size) {
  const int depth = size == MergeSize::kAny ? 0 : 1;
  CompactionSchedule::Merge merge(compactions_);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!jobs_.MayWorkLocked() || !compactions_.Begin(merge, size)) return false;
  }
  return RunMerge(merge, depth);
}

// Rewrites one table that refers to a mostly dead value segment, its values into the open one.
bool DbImpl::CollectOnce() {
  CompactionSchedule::Merge merge(compactions_);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!jobs_.MayWorkLocked() || !compactions_.BeginCollection(merge)) return false;
  }
  return RunMerge(merge, 0);
}

bool DbImpl::RunMerge(CompactionSchedule::Merge& merge, int depth) {
  CompactionJob::Calls calls;
  calls.interrupted = [this, depth](uint64_t bytes) { return Interrupted(depth, bytes); };
  calls.append_value = [this](Slice key, Slice value, log::ValueRef* reference) {
    return separator_.Append(key, value, reference);
  };
  calls.log_failure = [this](const Status& failure) { health_.LogFailure(failure); };
  calls.values = &resolver_;
  const Status status = base::OrOutOfMemory(
      [&] { return CompactionJob(Parts(), merge.inputs(), std::move(calls)).Run(); });
  EndMerge(merge, status);
  return status.ok();
}

// Does what cannot wait for the end of a merge, for there may be but one thread, which other
// databases and datasets use, too. `merged_bytes`: since the last time. True: the merge is to be
// given up.
bool DbImpl::Interrupted(int depth, uint64_t merged_bytes) {
  bool flush = false;
  bool prepare = false;
  bool merge = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!jobs_.MayWorkLocked()) return true;
    // The outer merge must come to its end: a merge within it is done only where flushes wait for
    // it, and has turns of its own.
    compactions_.Merged(merged_bytes);
    flush = FlushDueLocked();
    prepare = room_.PrepareDueLocked();
    merge = depth == 0 && compactions_.TooManyRuns() && compactions_.NewerDue();
  }
  if (prepare) room_.PrepareIfDue();
  if (flush) FlushOnce();
  executor_.RunWaiting();
  if (!merge) return false;
  const uint64_t turn = ExchangeMergeTurn(0);
  CompactOnce(MergeSize::kNewer);
  ExchangeMergeTurn(turn);
  return false;
}

uint64_t DbImpl::ExchangeMergeTurn(uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return compactions_.ExchangeTurn(bytes);
}

Status DbImpl::Compact() {
  QUIRE_RETURN_IF_ERROR(Flush());
  // What was overwritten or deleted in the open value segment can be collected once that is closed
  // and no write into it is under way.
  QUIRE_RETURN_IF_ERROR(values_->Seal());
  // No merge may publish between the look at the MemTables and the judgement of the segments: it
  // would give up a segment to which a record in a younger MemTable refers.
  versions_.ObserveSegments();
  base::EpochSynchronize();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t mine = compactions_.AskForAll();
    jobs_.ScheduleDueLocked();
    const auto done = [&] { return compactions_.DidAll(mine); };
    QUIRE_RETURN_IF_ERROR(
        jobs_.WaitLocked(lock, [&] { return done() || !compactions_.shortage().ok(); }));
    QUIRE_RETURN_IF_ERROR(health_.WriteStatusLocked());  // a merge that failed is over, too
    QUIRE_RETURN_IF_ERROR(done() ? compactions_.outcome_of_all() : compactions_.shortage());
  }
  QUIRE_RETURN_IF_ERROR(PublishNow());  // looks at the value segments anew
  const Status collected = CollectAll();
  CleanUp();
  return collected;
}

// Publishes although no run changed.
Status DbImpl::PublishNow() {
  const Status published = versions_.Publish({});
  if (!published.ok() && published.code() != Code::kNoSpace) {
    // Whether the manifest was replaced may not be known: nothing may be built on it.
    health_.Fail(published, "publishing");
  }
  return published;
}

// Waits until the value segments that are mostly dead now are collected; those that come to be so
// meanwhile, since others write on, are not waited for.
Status DbImpl::CollectAll() {
  std::unique_lock<std::mutex> lock(mutex_);
  const CompactionSchedule::Awaited due = compactions_.AwaitCollection();
  const base::ScopeExit awaited(
      [&] { compactions_.Forget(due); });  // before the lock is given back
  jobs_.ScheduleDueLocked();
  QUIRE_RETURN_IF_ERROR(jobs_.WaitLocked(lock, [&] { return compactions_.Collected(due); }));
  QUIRE_RETURN_IF_ERROR(health_.WriteStatusLocked());
  QUIRE_RETURN_IF_ERROR(compactions_.collection_refused());
  return compactions_.shortage();
}

}  // namespace quire::lsm
