// Preparing the next MemTable, and removing files that are not reachable any more.
#include "base/epoch.h"
#include "base/out_of_memory.h"
#include "base/sync_point.h"
#include "lsm/db/db_impl.h"

namespace quire::lsm {

Status DbImpl::background_status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return health_.failure();
}

Status DbImpl::WaitIdle() {
  std::unique_lock<std::mutex> lock(mutex_);
  jobs_.ScheduleDueLocked();
  Status status = jobs_.WaitLocked(lock, [this] { return jobs_.idle(); });
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
