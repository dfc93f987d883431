#include "lsm/jobs/flusher.h"

#include <cstdint>
#include <memory>

#include "base/core/out_of_memory.h"
#include "base/threads/sync_point.h"
#include "lsm/jobs/flush_job.h"

namespace quire::lsm {

bool Flusher::FlushableLocked() const {
  return !flushing_ && parts_.jobs.MayWorkLocked() && parts_.health.shortage().ok() &&
         !parts_.versions.current()->immutables.empty();
}

bool Flusher::DueLocked() const {
  const bool in_turn = !parts_.compactions.HasTurn() && !parts_.compactions.TooManyRuns();
  return FlushableLocked() && (in_turn || parts_.compactions.Suspended());
}

bool Flusher::WantedLocked() const {
  // The only thread is in a merge: whether that stands still is seen where the job runs.
  const bool may_be_due =
      FlushableLocked() && parts_.compactions.UnderWay() && parts_.executor.thread_count() == 1;
  return may_be_due || DueLocked();
}

bool Flusher::FlushOnce() {
  std::shared_ptr<PooledMemTable> memory;
  {
    const std::lock_guard<std::mutex> lock(parts_.mutex);
    if (!DueLocked()) return false;
    flushing_ = true;
    memory = parts_.versions.current()->immutables.back();
  }
  const Status status =
      base::OrOutOfMemory([&] { return FlushJob(parts_.job_parts, memory).Run(); });
  {
    const std::lock_guard<std::mutex> lock(parts_.mutex);
    parts_.compactions.GiveTurn(memory->table().data_bytes() + memory->value_bytes());
  }
  memory.reset();
  base::SyncPoint("lsm.flush.end");
  parts_.cleaner.CleanUp();  // so that the slot is free before a thread that waits for it looks
  if (status.ok()) TryRefusedMerges();
  const std::lock_guard<std::mutex> lock(parts_.mutex);
  flushing_ = false;
  if (status.ok()) {
    parts_.compactions.SetShortage(Status());
    parts_.health.FlushedLocked();
  } else {
    parts_.health.FailLocked(status, "flushing a MemTable");
  }
  parts_.jobs.ScheduleDueLocked();
  parts_.changed.notify_all();
  return status.ok();
}

void Flusher::TryRefusedMerges() {
  {
    const std::lock_guard<std::mutex> lock(parts_.mutex);
    if (!parts_.compactions.HasRefused()) return;
  }
  const Result<uint64_t> free_bytes =
      parts_.job_parts.tables.fs->FreeBytes(parts_.job_parts.tables.directory);
  const std::lock_guard<std::mutex> lock(parts_.mutex);
  parts_.compactions.TryRefusedAgain(free_bytes);
}

}  // namespace quire::lsm
