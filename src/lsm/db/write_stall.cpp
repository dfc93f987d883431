// Room for writes: the full MemTable becomes immutable, a prepared one takes its place; where the
// flushing queue is full the writer waits, asleep, or stops until it is asked to go on.
#include <chrono>
#include <utility>

#include "base/epoch.h"
#include "base/out_of_memory.h"
#include "base/sync_point.h"
#include "base/units.h"
#include "io/files/machine.h"
#include "lsm/db/db_impl.h"

namespace quire::lsm {
namespace {

// A slot can become free by a reader's leaving, which tells nobody: look again after so long.
constexpr std::chrono::milliseconds kLookAgain(2);
// A slot that is about to be free is worth waiting for so long before one is made outside of the
// pool.
constexpr uint64_t kOutsideAfterNs = 5'000'000;
// Beside the MemTable's own bytes, a flush needs room for the index, the filter and the manifest.
constexpr uint64_t kFlushSlackBytes = 1 << 20;

}  // namespace

Status DbImpl::MakeRoomForWrite(uint64_t full_generation) {
  engine::WriteProgress progress;
  return MakeRoomForWrite(full_generation, &progress);
}

// Of a write that stopped for lack of room. Until there is room nothing of it is tried: a large
// value would be stored once more by each attempt.
Status DbImpl::GoOn(engine::WriteProgress* progress) {
  progress->waits = false;
  if (progress->full_generation == 0) return Status();
  counters_.Add(StorageCounter::kStallNs, io::RealClock().NowNs() - progress->stopped_ns);
  return MakeRoomForWrite(std::exchange(progress->full_generation, 0), progress);
}

DbImpl::Room DbImpl::LookForRoomLocked(engine::WriteProgress* progress) const {
  Room room;
  room.queue_full =
      versions_.current()->immutables.size() >= static_cast<size_t>(options_.flushing_queue_length);
  room.slot_free = pool_->HasFreeSlot();
  const uint64_t now_ns = io::RealClock().NowNs();
  // Until the queue has room it is the flushes that are waited for, not the iterators.
  const bool pinned = !room.queue_full && !room.slot_free;
  if (!pinned || progress->pinned_since_ns == 0) progress->pinned_since_ns = now_ns;
  room.pinned_ns = now_ns - progress->pinned_since_ns;
  // Iterators pin the slots, perhaps those of this very thread: go on outside of the pool.
  room.outside = room.pinned_ns > kOutsideAfterNs;
  return room;
}

// At return another MemTable than that of `full_generation` is active; or the write waits.
Status DbImpl::MakeRoomForWrite(uint64_t full_generation, engine::WriteProgress* progress) {
  VersionSet::Change change(versions_);
  while (true) {
    QUIRE_RETURN_IF_ERROR(health_.WriteStatusLocked());
    const MemTable& active = versions_.current()->active->table();
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
      if (room.pinned_ns > environment_.pinned_wait_ms_max * base::kNsPerMs) {
        return Status(Code::kBusy,
                      directory_ + ": no MemTable became free: try again, or end some iterators");
      }
    }
    QUIRE_RETURN_IF_ERROR(WaitForRoomLocked(change.lock(), progress));
    if (!progress->waits) continue;
    progress->full_generation = full_generation;
    return Status(Code::kBusy, directory_ + ": there is no room for the write yet");
  }
}

void DbImpl::RotateLocked(VersionSet::Change& change) {
  const std::shared_ptr<PooledMemTable> full = versions_.current()->active;
  std::shared_ptr<Version> next = versions_.Successor(change);  // before the full one is closed
  base::SyncPoint("lsm.rotate.before");
  full->Close();
  ready_->Activate(full->generation(), full->end_lsn());
  counters_.Add(StorageCounter::kLogBytes, full->table().data_bytes());
  next->active = std::exchange(ready_, nullptr);
  prepare_refused_ = false;
  next->immutables.insert(next->immutables.begin(), full);
  versions_.InstallLocked(std::move(next));
  jobs_.ScheduleDueLocked();
  changed_.notify_all();
}

Result<std::shared_ptr<PooledMemTable>> DbImpl::PrepareMemory(bool outside) {
  return base::OrOutOfMemory([&]() -> Result<std::shared_ptr<PooledMemTable>> {
    if (outside) return pool_->PrepareOutside();
    return pool_->Prepare();
  });
}

// Makes the next MemTable on this thread; the lock is let go meanwhile.
Status DbImpl::PrepareLocked(std::unique_lock<std::mutex>& lock, bool outside) {
  preparing_ = true;
  lock.unlock();
  base::SyncPoint("lsm.prepare.before");
  Result<std::shared_ptr<PooledMemTable>> prepared = PrepareMemory(outside);
  base::SyncPoint("lsm.prepare.after");
  lock.lock();
  preparing_ = false;
  changed_.notify_all();
  if (prepared.ok()) {
    if (*prepared != nullptr) ready_ = std::move(*prepared);
    return Status();
  }
  // Nothing is damaged: the next writer tries again.
  if (IsShortage(prepared.status())) return prepared.status();
  health_.FailLocked(prepared.status(), "making a log segment");
  return health_.WriteStatusLocked();
}

// A flush that failed for a shortage is tried once more for each writer that needs it, and of a
// full device only if there is room now: nothing tries again while nobody writes.
Status DbImpl::RetryFlushLocked(std::unique_lock<std::mutex>& lock, bool* retried) {
  if (*retried || versions_.current()->immutables.empty()) return health_.shortage();
  *retried = true;
  if (health_.shortage().code() == Code::kNoSpace) {
    const uint64_t needed =
        versions_.current()->immutables.back()->table().data_bytes() + kFlushSlackBytes;
    const Status no_space = health_.shortage();
    lock.unlock();
    const Result<uint64_t> free = fs_.FreeBytes(directory_);
    lock.lock();
    if (!free.ok() || *free < needed) return no_space;
  }
  health_.ClearShortageLocked();
  jobs_.ScheduleDueLocked();
  return Status();
}

// Waits until something changes, unless the write must not wait.
Status DbImpl::WaitForRoomLocked(std::unique_lock<std::mutex>& lock,
                                 engine::WriteProgress* progress) {
  if (!health_.shortage().ok())
    QUIRE_RETURN_IF_ERROR(RetryFlushLocked(lock, &progress->flush_retried));
  io::Clock& clock = io::RealClock();
  const uint64_t begin_ns = clock.NowNs();
  if (!jobs_.RunOneUnlocked(lock)) {
    progress->waits = !progress->may_wait;
    if (!progress->waits) changed_.wait_for(lock, kLookAgain);
  }
  progress->stopped_ns = clock.NowNs();
  counters_.Add(StorageCounter::kStallNs, progress->stopped_ns - begin_ns);
  return Status();
}

Status DbImpl::Flush() {
  std::unique_lock<std::mutex> lock(mutex_);
  QUIRE_RETURN_IF_ERROR(health_.WriteStatusLocked());
  health_.ClearShortageLocked();
  jobs_.ScheduleDueLocked();
  if (!versions_.current()->active->table().empty()) {
    const uint64_t generation = versions_.current()->active->generation();
    early_generation_ = generation;
    lock.unlock();
    QUIRE_RETURN_IF_ERROR(
        MakeRoomForWrite(generation));  // and lets go of what holds the full one's memory
    lock.lock();
  }
  if (versions_.current()->immutables.empty()) return Status();
  const uint64_t wanted_lsn = versions_.current()->immutables.front()->end_lsn();
  return jobs_.WaitLocked(lock, [&] { return versions_.flushed_lsn() >= wanted_lsn; });
}

}  // namespace quire::lsm
