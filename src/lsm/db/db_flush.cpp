// Flushing: the oldest immutable MemTable becomes a table.
#include <algorithm>
#include <utility>

#include "base/out_of_memory.h"
#include "base/sync_point.h"
#include "lsm/db/db_impl.h"
#include "lsm/jobs/flush_job.h"

namespace quire::lsm {

bool DbImpl::FlushableLocked() const {
  return !flushing_ && jobs_.MayWorkLocked() && health_.shortage().ok() &&
         !versions_.current()->immutables.empty();
}

bool DbImpl::FlushDueLocked() const {
  const bool in_turn = !compactions_.HasTurn() && !compactions_.TooManyRuns();
  return FlushableLocked() && (in_turn || compactions_.Suspended());
}

bool DbImpl::FlushWantedLocked() const {
  // The only thread is in a merge: whether that stands still is seen where the job runs.
  const bool may_be_due =
      FlushableLocked() && compactions_.UnderWay() && executor_.thread_count() == 1;
  return may_be_due || FlushDueLocked();
}

// Flushes the oldest immutable MemTable, if that is due; false where it is not, or failed.
bool DbImpl::FlushOnce() {
  std::shared_ptr<PooledMemTable> memory;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!FlushDueLocked()) return false;
    flushing_ = true;
    memory = versions_.current()->immutables.back();
  }
  const Status status = base::OrOutOfMemory([&] { return FlushMemTable(memory); });
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    compactions_.GiveTurn(memory->table().data_bytes() + memory->value_bytes());
  }
  memory.reset();
  base::SyncPoint("lsm.flush.end");
  CleanUp();  // so that the slot is free before anybody who waits for it looks
  if (status.ok()) TryRefusedAgain();
  const std::lock_guard<std::mutex> lock(mutex_);
  flushing_ = false;
  if (status.ok()) {
    compactions_.SetShortage(Status());
    health_.FlushedLocked();
  } else {
    health_.FailLocked(status, "flushing a MemTable");
  }
  jobs_.ScheduleDueLocked();
  changed_.notify_all();
  return status.ok();
}

Status DbImpl::FlushMemTable(const std::shared_ptr<PooledMemTable>& memory) {
  return FlushJob(Parts(), memory).Run();
}

JobParts DbImpl::Parts() {
  return {Tables(), check_held_, &mutex_, &versions_, values_.get(), &snapshots_, &counters_};
}

}  // namespace quire::lsm
