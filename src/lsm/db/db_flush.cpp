// Flushing: the oldest immutable MemTable becomes a table.
#include <algorithm>
#include <utility>

#include "base/out_of_memory.h"
#include "base/sync_point.h"
#include "lsm/db/db_impl.h"
#include "lsm/db/flush_job.h"

namespace quire::lsm {
namespace {

// Where one thread does all, a merge goes on for a byte after so many bytes that were flushed.
constexpr uint64_t kFlushedPerMergedByte = 4;

}  // namespace

// While there are too many runs, and a merge goes on or a short one is due, flushes wait for it. A
// merge that another database keeps from its thread is no reason.
bool DbImpl::TooManyRunsLocked() const {
  const size_t idle = versions_.current()->runs.size() - busy_runs_.size();
  const size_t count = idle + (busy_runs_.empty() ? 0 : 1);
  if (count < RunCountMax(options_) || !compaction_shortage_.ok()) return false;
  return merging_ > 0 || PickLocked(MergeSize::kShort).count > 0;
}

bool DbImpl::FlushableLocked() const {
  return !flushing_ && !closing_ && failure_.ok() && shortage_.ok() &&
         !versions_.current()->immutables.empty();
}

// The merge under way stands still while its thread works for another database.
bool DbImpl::SuspendedLocked() const {
  return merging_ > 0 && executor_.LongJobs() > merge_level_;
}

bool DbImpl::FlushDueLocked() const {
  const bool in_turn = merge_turn_bytes_ == 0 && !TooManyRunsLocked();
  return FlushableLocked() && (in_turn || SuspendedLocked());
}

// A merge that never ended would free nothing of what the writers overwrite: they could fill any
// device.
void DbImpl::GiveMergeItsTurnLocked(const PooledMemTable& flushed) {
  if (merging_ == 0 || SuspendedLocked() || executor_.thread_count() > 1) return;
  const uint64_t bytes = flushed.table().data_bytes() + flushed.value_bytes();
  merge_turn_bytes_ = bytes / kFlushedPerMergedByte;
}

// One at a time, so that on a single thread a merge gets its turn: it does flushes that become due
// on its way.
void DbImpl::RunFlush() {
  FlushOnce();
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
    GiveMergeItsTurnLocked(*memory);
  }
  memory.reset();
  base::SyncPoint("lsm.flush.end");
  CleanUp();  // so that the slot is free before anybody who waits for it looks
  if (status.ok()) TryRefusedAgain();
  const std::lock_guard<std::mutex> lock(mutex_);
  flushing_ = false;
  if (status.ok()) {
    compaction_shortage_ = Status();
    shortage_logged_ = false;
  } else {
    FailLocked(status, "flushing a MemTable");
  }
  MaybeScheduleLocked();
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
