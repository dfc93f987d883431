// Background work: what is due, who waits for it, and what a failure means.
#include <new>
#include <utility>

#include "base/epoch.h"
#include "base/out_of_memory.h"
#include "base/sync_point.h"
#include "lsm/db/db_impl.h"

namespace quire::lsm {

// The job counts until it is over; after that it touches nothing of this database.
void DbImpl::ScheduleLocked(void (DbImpl::*job)(), bool DbImpl::*queued) {
  try {
    auto run = [this, job, queued] { RunJob(job, queued); };
    if (job == &DbImpl::RunCompaction) {
      executor_.ScheduleLong(std::move(run));
    } else {
      executor_.Schedule(std::move(run));
    }
    this->*queued = true;
    ++jobs_;
  } catch (const std::bad_alloc&) {
    health_.FailLocked(base::OutOfMemory(), "scheduling background work");
  }
}

void DbImpl::RunJob(void (DbImpl::*job)(), bool DbImpl::*queued) {
  const Status status = base::OrOutOfMemory([&] {
    (this->*job)();
    return Status();
  });
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!status.ok()) health_.FailLocked(status, "background work");
  this->*queued = false;
  const Status next = base::OrOutOfMemory([this] {
    MaybeScheduleLocked();
    return Status();
  });
  if (!next.ok()) health_.FailLocked(next, "background work");
  --jobs_;
  changed_.notify_all();
}

void DbImpl::MaybeScheduleLocked() {
  if (closing_ || !health_.failure().ok() || versions_.current()->active == nullptr) return;
  // The only thread is in a merge: whether that stands still is seen where the job runs.
  const bool may_be_due =
      FlushableLocked() && compactions_.UnderWay() && executor_.thread_count() == 1;
  if (!flush_queued_ && (may_be_due || FlushDueLocked())) {
    ScheduleLocked(&DbImpl::RunFlush, &DbImpl::flush_queued_);
  }
  if (!compaction_queued_ && compactions_.Wanted()) {
    ScheduleLocked(&DbImpl::RunCompaction, &DbImpl::compaction_queued_);
  }
  if (!prepare_queued_ && PrepareDueLocked()) {
    ScheduleLocked(&DbImpl::PrepareIfDue, &DbImpl::prepare_queued_);
  }
}

bool DbImpl::PrepareDueLocked() const {
  if (ready_ != nullptr || preparing_ || prepare_refused_ || !pool_->HasFreeSlot()) return false;
  // One that Flush closed with little in it is through before the active one is full: its memory,
  // which is there already, is taken again. New memory costs a page fault for each page.
  const auto& closed = versions_.current()->immutables;
  const bool comes_back = closed.size() == 1 && closed.front()->generation() == early_generation_ &&
                          closed.front()->table().data_bytes() < options_.memtable_bytes / 2;
  return !comes_back;
}

void DbImpl::PrepareIfDue() {
  std::unique_lock<std::mutex> lock(mutex_);
  // Without room for it there is nothing to be done now: the writer that needs it asks again.
  if (closing_ || !health_.failure().ok() || !PrepareDueLocked()) return;
  prepare_refused_ = !PrepareLocked(lock, false).ok();
}

// Lets a deterministic executor do one job. What the caller knew before may have changed at return.
bool DbImpl::RunOneUnlocked(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const bool ran = executor_.RunOne();
  base::EpochCollect();
  lock.lock();
  return ran;
}

Status DbImpl::WaitLocked(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
  const auto over = [&] { return done() || !health_.failure().ok() || !health_.shortage().ok(); };
  while (!over()) {
    if (RunOneUnlocked(lock) || over()) continue;
    changed_.wait(lock);
  }
  if (done()) return Status();
  QUIRE_RETURN_IF_ERROR(health_.WriteStatusLocked());
  return health_.shortage();
}

Status DbImpl::background_status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return health_.failure();
}

Status DbImpl::WaitIdle() {
  std::unique_lock<std::mutex> lock(mutex_);
  MaybeScheduleLocked();
  Status status = WaitLocked(lock, [this] { return jobs_ == 0; });
  if (status.ok()) status = health_.WriteStatusLocked();  // a job that failed is over, too
  lock.unlock();
  CleanUp();
  return status;
}

// Frees what no reader sees any more, and removes the files that went with it. A file that cannot
// be removed costs room until the next open finds that nothing refers to it.
void DbImpl::CleanUp() noexcept {
  base::SyncPoint("lsm.cleanup.before");
  base::EpochCollect();
  health_.LogFailure(base::OrOutOfMemory([&] { return RemoveUnreachable(); }));
}

Status DbImpl::RemoveUnreachable() {
  const std::vector<std::string> tables = obsolete_files_->TakeTables();
  const std::vector<uint64_t> segments = obsolete_files_->TakeSegments();
  if (tables.empty() && segments.empty() && !pool_->HasStray()) return Status();
  const Status held = check_held_();
  if (!held.ok()) {
    if (IsAnothers(held)) return held;
    // There is no descriptor or memory to look with: the next time.
    for (const std::string& path : tables) obsolete_files_->AddTable(path);
    for (const uint64_t id : segments) obsolete_files_->AddSegment(id);
    return held;
  }
  for (const std::string& path : tables) health_.LogFailure(fs_.Unlink(path));
  for (const uint64_t id : segments) health_.LogFailure(values_->Remove(id));
  return pool_->RemoveStray();
}

}  // namespace quire::lsm
