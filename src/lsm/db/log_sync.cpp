#include "lsm/db/log_sync.h"

#include <memory>

#include "base/core/out_of_memory.h"
#include "base/core/unknown_outcome.h"
#include "base/threads/sync_point.h"
#include "lsm/version/version.h"

namespace quire::lsm {

Status LogSync::SyncWrite(uint64_t lsn) {
  const Status synced = base::OrOutOfMemory([&] { return SyncThrough(lsn); });
  return synced.ok() ? synced : StoredUnsynced(synced);
}

Status LogSync::SyncAll() {
  uint64_t lsn = 0;
  {
    const std::shared_ptr<const Version> version = versions_.Pin();
    lsn = version->active->table().QuiescedLsn();
  }
  return SyncThrough(lsn);
}

// A write that was stored before the sync failed: readers see it, and it is not taken back.
Status LogSync::StoredUnsynced(const Status& why) const {
  const Status said = base::OrOutOfMemory([&] {
    return base::UnknownOutcome(
        why, "; whether the write is stored is not known: readers of " + directory_ +
                 " see it, but a loss of power may take it; reopen the database and look");
  });
  return said.code() == Code::kIo ? said : Status(Code::kIo);
}

// The first thread syncs what is complete by then, for all that wait behind it: group commit.
Status LogSync::SyncThrough(uint64_t lsn) {
  if (durable_lsn_.load(std::memory_order_acquire) > lsn) return Status();
  const std::lock_guard<std::mutex> sync_lock(mutex_);
  if (durable_lsn_.load(std::memory_order_relaxed) > lsn) return Status();
  QUIRE_RETURN_IF_ERROR(health_.WriteStatus());  // a sync that failed is never tried again
  uint64_t end_lsn = 0;
  const std::shared_ptr<const Version> version = versions_.Pin();
  base::SyncPoint("lsm.log.sync.before");
  const Status status = SyncMemory(*version, &end_lsn);
  if (IsShortage(status)) return status;  // no sync was tried, and a later one can succeed
  if (!status.ok()) {
    health_.Fail(status, "syncing the log");
    return status;
  }
  durable_lsn_.store(end_lsn, std::memory_order_release);
  base::SyncPoint("lsm.log.sync.after");
  return Status();
}

// Values before the records that refer to them, older segments before younger ones.
Status LogSync::SyncMemory(const Version& version, uint64_t* end_lsn) {
  PooledMemTable& active = *version.active;
  *end_lsn = active.table().QuiescedLsn() + 1;
  QUIRE_RETURN_IF_ERROR(values_->Sync());
  for (size_t i = version.immutables.size(); i-- > 0;) {
    PooledMemTable& memory = *version.immutables[i];
    QUIRE_RETURN_IF_ERROR(memory.SyncTo(memory.end_lsn() - memory.base_lsn()));
  }
  return active.SyncTo(*end_lsn - active.base_lsn());
}

}  // namespace quire::lsm
