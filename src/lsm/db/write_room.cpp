#include "lsm/db/write_room.h"

#include <chrono>
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/text/units.h"
#include "base/threads/epoch.h"
#include "base/threads/sync_point.h"
#include "io/files/machine.h"

namespace quire::lsm {
namespace {

// A reader that leaves may free a slot, and notifies no thread: check again after so long.
constexpr std::chrono::milliseconds kLookAgain(2);
// A slot that is about to be free is worth waiting for so long before one is made outside of the
// pool.
constexpr uint64_t kOutsideAfterNs = 5'000'000;
// Beside the MemTable's own bytes, a flush needs room for the index, the filter and the manifest.
constexpr uint64_t kFlushSlackBytes = 1 << 20;

}  // namespace

Status WriteRoom::MakeRoom(uint64_t full_generation) {
  engine::WriteProgress progress;
  return MakeRoom(full_generation, &progress);
}

Status WriteRoom::GoOn(engine::WriteProgress* progress) {
  progress->waits = false;
  if (progress->full_generation == 0) return Status();
  parts_.counters.Add(StorageCounter::kStallNs, io::RealClock().NowNs() - progress->stopped_ns);
  return MakeRoom(std::exchange(progress->full_generation, 0), progress);
}

WriteRoom::Room WriteRoom::LookForRoomLocked(engine::WriteProgress* progress) const {
  Room room;
  room.queue_full = parts_.versions.current()->immutables.size() >=
                    static_cast<size_t>(parts_.options.flushing_queue_length);
  room.slot_free = pool_->HasFreeSlot();
  const uint64_t now_ns = io::RealClock().NowNs();
  // Until the queue has room, the writer waits for flushes, not for iterators.
  const bool pinned = !room.queue_full && !room.slot_free;
  if (!pinned || progress->pinned_since_ns == 0) progress->pinned_since_ns = now_ns;
  room.pinned_ns = now_ns - progress->pinned_since_ns;
  // Iterators pin the slots, perhaps those of this very thread: go on outside of the pool.
  room.outside = room.pinned_ns > kOutsideAfterNs;
  return room;
}

Status WriteRoom::MakeRoom(uint64_t full_generation, engine::WriteProgress* progress) {
  VersionSet::Change change(parts_.versions);
  while (true) {
    QUIRE_RETURN_IF_ERROR(parts_.health.WriteStatusLocked());
    const MemTable& active = parts_.versions.current()->active->table();
    if (active.generation() != full_generation) return Status();
    QUIRE_RETURN_IF_ERROR(active.RoomFailure());
    const Room room = LookForRoomLocked(progress);
    if (!room.queue_full && ready_ != nullptr) {
      RotateLocked(change);
      return Status();
    }
    if (!room.queue_full && !preparing_ && (room.slot_free || room.outside)) {
      QUIRE_RETURN_IF_ERROR(PrepareLocked(change.lock(), room.outside));
      if (ready_ != nullptr) continue;
      if (room.pinned_ns > pinned_wait_ms_max_ * base::kNsPerMs) {
        return Status(
            Code::kBusy,
            parts_.directory + ": no MemTable became free: try again, or end some iterators");
      }
    }
    QUIRE_RETURN_IF_ERROR(WaitForRoomLocked(change.lock(), progress));
    if (!progress->waits) continue;
    progress->full_generation = full_generation;
    return Status(Code::kBusy, parts_.directory + ": there is no room for the write yet");
  }
}

void WriteRoom::RotateLocked(VersionSet::Change& change) {
  const std::shared_ptr<PooledMemTable> full = parts_.versions.current()->active;
  std::shared_ptr<Version> next =
      parts_.versions.Successor(change);  // before the full one is closed
  base::SyncPoint("lsm.rotate.before");
  full->Close();
  ready_->Activate(full->generation(), full->end_lsn());
  parts_.counters.Add(StorageCounter::kLogBytes, full->table().data_bytes());
  next->active = std::exchange(ready_, nullptr);
  prepare_refused_ = false;
  next->immutables.insert(next->immutables.begin(), full);
  parts_.versions.InstallLocked(std::move(next));
  parts_.jobs.ScheduleDueLocked();
  parts_.changed.notify_all();
}

Result<std::shared_ptr<PooledMemTable>> WriteRoom::Prepare(bool outside) {
  return base::OrOutOfMemory([&]() -> Result<std::shared_ptr<PooledMemTable>> {
    if (outside) return pool_->PrepareOutside();
    return pool_->Prepare();
  });
}

// Makes the next MemTable on this thread; the lock is let go meanwhile.
Status WriteRoom::PrepareLocked(std::unique_lock<std::mutex>& lock, bool outside) {
  preparing_ = true;
  lock.unlock();
  base::SyncPoint("lsm.prepare.before");
  Result<std::shared_ptr<PooledMemTable>> prepared = Prepare(outside);
  base::SyncPoint("lsm.prepare.after");
  lock.lock();
  preparing_ = false;
  parts_.changed.notify_all();
  if (prepared.ok()) {
    if (*prepared != nullptr) ready_ = std::move(*prepared);
    return Status();
  }
  // Nothing is damaged: the next writer tries again.
  if (IsShortage(prepared.status())) return prepared.status();
  parts_.health.FailLocked(prepared.status(), "making a log segment");
  return parts_.health.WriteStatusLocked();
}

// A flush that failed for a shortage is retried once for each writer that needs it, and if the
// device was full, only if there is room now: without writers nothing retries it.
Status WriteRoom::RetryFlushLocked(std::unique_lock<std::mutex>& lock, bool* retried) {
  if (*retried || parts_.versions.current()->immutables.empty()) return parts_.health.shortage();
  *retried = true;
  if (parts_.health.shortage().code() == Code::kNoSpace) {
    const uint64_t needed =
        parts_.versions.current()->immutables.back()->table().data_bytes() + kFlushSlackBytes;
    const Status no_space = parts_.health.shortage();
    lock.unlock();
    const Result<uint64_t> free = parts_.fs.FreeBytes(parts_.directory);
    lock.lock();
    if (!free.ok() || *free < needed) return no_space;
  }
  parts_.health.ClearShortageLocked();
  parts_.jobs.ScheduleDueLocked();
  return Status();
}

// Waits until something changes, unless the write must not wait.
Status WriteRoom::WaitForRoomLocked(std::unique_lock<std::mutex>& lock,
                                    engine::WriteProgress* progress) {
  if (!parts_.health.shortage().ok()) {
    QUIRE_RETURN_IF_ERROR(RetryFlushLocked(lock, &progress->flush_retried));
  }
  io::Clock& clock = io::RealClock();
  const uint64_t begin_ns = clock.NowNs();
  if (!parts_.jobs.RunOneUnlocked(lock)) {
    progress->waits = !progress->may_wait;
    if (!progress->waits) parts_.changed.wait_for(lock, kLookAgain);
  }
  progress->stopped_ns = clock.NowNs();
  parts_.counters.Add(StorageCounter::kStallNs, progress->stopped_ns - begin_ns);
  return Status();
}

void WriteRoom::RotateEarly(uint64_t full_generation, bool may_wait) {
  engine::WriteProgress progress;
  progress.may_wait = may_wait;
  const Status rotated = base::OrOutOfMemory([&] { return MakeRoom(full_generation, &progress); });
  if (!progress.waits) parts_.health.LogFailure(rotated);
}

bool WriteRoom::PrepareDueLocked() const {
  if (ready_ != nullptr || preparing_ || prepare_refused_ || !pool_->HasFreeSlot()) return false;
  // A MemTable that Flush closed with little in it is flushed before the active one is full: then
  // its memory, which is present already, is used again. New memory costs a page fault for each
  // page.
  const auto& closed = parts_.versions.current()->immutables;
  const bool comes_back = closed.size() == 1 && closed.front()->generation() == early_generation_ &&
                          closed.front()->table().data_bytes() < parts_.options.memtable_bytes / 2;
  return !comes_back;
}

void WriteRoom::PrepareIfDue() {
  std::unique_lock<std::mutex> lock(parts_.mutex);
  // Without room for it nothing can be done now: the writer that needs it requests it again.
  if (!parts_.jobs.MayWorkLocked() || !PrepareDueLocked()) return;
  prepare_refused_ = !PrepareLocked(lock, false).ok();
}

Status WriteRoom::Flush() {
  std::unique_lock<std::mutex> lock(parts_.mutex);
  QUIRE_RETURN_IF_ERROR(parts_.health.WriteStatusLocked());
  parts_.health.ClearShortageLocked();
  parts_.jobs.ScheduleDueLocked();
  if (!parts_.versions.current()->active->table().empty()) {
    const uint64_t generation = parts_.versions.current()->active->generation();
    early_generation_ = generation;
    lock.unlock();
    QUIRE_RETURN_IF_ERROR(MakeRoom(generation));  // and lets go of what holds the full one's memory
    lock.lock();
  }
  if (parts_.versions.current()->immutables.empty()) return Status();
  const uint64_t wanted_lsn = parts_.versions.current()->immutables.front()->end_lsn();
  return parts_.jobs.WaitLocked(lock, [&] { return parts_.versions.flushed_lsn() >= wanted_lsn; });
}

}  // namespace quire::lsm
