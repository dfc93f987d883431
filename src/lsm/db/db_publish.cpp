// A change of the runs: the manifest first, then the Version that readers see.
#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/epoch.h"
#include "base/out_of_memory.h"
#include "base/sync_point.h"
#include "lsm/db/db_impl.h"

namespace quire::lsm {

// The runs as `edit` leaves them. publish_mutex_ is held, so that nobody else changes them.
std::vector<std::shared_ptr<const Run>> DbImpl::EditedRuns(const RunEdit& edit) const {
  std::vector<std::shared_ptr<const Run>> runs;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    runs = current_->runs;
  }
  auto place = runs.begin();
  if (!edit.inputs.empty()) {
    place = std::find(runs.begin(), runs.end(), edit.inputs.front());
    QUIRE_CHECK(place != runs.end());
    place = runs.erase(place, place + static_cast<std::ptrdiff_t>(edit.inputs.size()));
  }
  if (edit.output != nullptr) runs.insert(place, edit.output);
  return runs;
}

SegmentUses DbImpl::UsesOf(const std::vector<std::shared_ptr<const Run>>& runs) {
  SegmentUses uses;
  for (const std::shared_ptr<const Run>& run : runs) {
    for (const std::shared_ptr<TableHandle>& table : run->tables()) {
      for (const table::SegmentUse& use : table->info().segments) uses[use.segment_id] += use.bytes;
    }
  }
  return uses;
}

// Looks what became of the value segments since the last time.
void DbImpl::ObserveSegments() {
  const std::vector<ValueSegmentInfo> segments = values_->Segments();
  // First who is past the grace period, then where the MemTables stand.
  const std::set<uint64_t> graced = segments_.Graced();
  base::SyncPoint("lsm.observe.graced");
  MemoryState memory;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    memory.flushed_lsn = flushed_lsn_;
    if (current_->active != nullptr) {
      memory.active_base_lsn = current_->active->base_lsn();
      memory.empty = current_->immutables.empty() && current_->active->table().empty();
    }
  }
  base::SyncPoint("lsm.observe.memory");
  for (std::shared_ptr<std::atomic<bool>>& flag : segments_.Observe(graced, segments, memory)) {
    base::EpochRetire(base::EpochPrepare(
        [flag = std::move(flag)] { flag->store(true, std::memory_order_release); }));
  }
}

// Headers of the log segments that stay, durable: from then on the manifest can demand them.
Status DbImpl::SyncLiveHeaders(const std::shared_ptr<PooledMemTable>& flushed) {
  std::vector<std::shared_ptr<PooledMemTable>> live;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    live = current_->immutables;
    if (current_->active != nullptr) live.push_back(current_->active);
  }
  const std::lock_guard<std::mutex> sync_lock(sync_mutex_);
  for (const std::shared_ptr<PooledMemTable>& handle : live) {
    if (handle != flushed) QUIRE_RETURN_IF_ERROR(handle->SyncHeader());
  }
  return Status();
}

Manifest DbImpl::NextManifest(const RunEdit& edit,
                              const std::vector<std::shared_ptr<const Run>>& runs,
                              uint64_t open_floor) const {
  Manifest next = manifest_;
  next.edition = manifest_.edition + 1;
  next.next_ssid = next_ssid_.load(std::memory_order_relaxed);
  next.value_segment_floor = open_floor;
  next.next_value_segment_id = values_->next_id();
  for (const std::shared_ptr<const Run>& run : runs) {
    std::vector<table::TableInfo>& tables = next.runs.emplace_back();
    for (const std::shared_ptr<TableHandle>& table : run->tables()) tables.push_back(table->info());
  }
  next.value_segments = segments_.Stored();
  const std::lock_guard<std::mutex> lock(mutex_);
  next.flushed_lsn = edit.flushed == nullptr ? flushed_lsn_ : edit.flushed->end_lsn();
  std::vector<std::shared_ptr<PooledMemTable>> live = current_->immutables;
  if (current_->active != nullptr) live.insert(live.begin(), current_->active);
  for (size_t i = live.size(); i-- > 0;) {
    const PooledMemTable& handle = *live[i];
    if (live[i] == edit.flushed || !handle.header_durable()) continue;
    next.log_segments.push_back({handle.file_number(), handle.generation()});
  }
  return next;
}

// kIo where it is not certain that the old manifest stands: what the new one names must stay then.
Status DbImpl::WriteManifest(const Manifest& manifest, uint64_t previous_epoch) {
  Status status;
  try {
    status = PublishManifest(fs_, directory_, manifest, previous_epoch);
    // Busy, and a shortage that a call reports: the old one stands (ReplaceFile).
    if (status.ok() || status.code() == Code::kBusy || IsShortage(status)) return status;
  } catch (const std::bad_alloc&) {
    status = base::OutOfMemory();  // before the rename, or after it
  }
  const Result<uint64_t> edition = StoredEdition(fs_, directory_);
  if (edition.ok() && *edition != manifest.edition) return status;
  return InDoubt(status);
}

Status DbImpl::InDoubt(const Status& why) {
  manifest_in_doubt_.store(true, std::memory_order_release);
  return Status(Code::kIo, why.ToString() + "; whether the new manifest counts is not known");
}

Status DbImpl::Publish(const RunEdit& edit) {
  base::SyncPoint("lsm.publish.before");
  const std::lock_guard<std::mutex> publish_lock(publish_mutex_);
  if (manifest_in_doubt_.load(std::memory_order_acquire)) {
    return Status(Code::kReadOnly, "after a failure it is not known which manifest counts in " +
                                       directory_ + "; reopen it when the cause is gone");
  }
  // First the floor, then what lies below it: none there is missing from the list.
  const uint64_t open_floor = values_->open_floor();
  ObserveSegments();
  QUIRE_RETURN_IF_ERROR(SyncLiveHeaders(edit.flushed));
  Publication next;
  next.runs = EditedRuns(edit);
  next.uses = UsesOf(next.runs);
  next.unused = segments_.Unused(next.uses);
  next.manifest = NextManifest(edit, next.runs, open_floor);
  std::erase_if(next.manifest.value_segments, [&](const StoredSegment& segment) {
    return std::find(next.unused.begin(), next.unused.end(), segment.id) != next.unused.end();
  });
  try {
    QUIRE_RETURN_IF_ERROR(WriteManifest(next.manifest, next.manifest.epoch));
    base::SyncPoint("lsm.publish.written");
    ShowPublished(edit, std::move(next));
  } catch (const std::bad_alloc&) {
    // The new manifest may count while readers here see the old runs: nothing may be built on that.
    return InDoubt(base::OutOfMemory());
  }
  base::SyncPoint("lsm.publish.after");
  return Status();
}

// Publishes although no run changed.
Status DbImpl::PublishNow() {
  const Status published = Publish({});
  if (!published.ok() && published.code() != Code::kNoSpace) {
    // Whether the manifest was replaced may not be known: nothing may be built on it.
    const std::lock_guard<std::mutex> lock(mutex_);
    FailLocked(published, "publishing");
  }
  return published;
}

// The manifest is written: from now on everybody sees it. What needs memory comes before the first
// change: whoever waits for `flushed_lsn_` takes the runs for those that hold it.
void DbImpl::ShowPublished(const RunEdit& edit, Publication next) {
  for (const uint64_t id : next.unused) segments_.GiveUp(id);
  for (const std::shared_ptr<TableHandle>& table : edit.obsolete) table->SetObsolete();
  if (edit.flushed != nullptr) edit.flushed->SetFlushed();

  VersionChange change(*this);
  std::shared_ptr<Version> version = SuccessorLocked(change);
  version->segments = segments_.Handles();
  const bool collect_due = !segments_.MostlyDead(next.uses).empty();
  version->runs = std::move(next.runs);
  version->segments_floor = next.manifest.value_segment_floor;
  if (edit.flushed != nullptr) std::erase(version->immutables, edit.flushed);
  flushed_lsn_ = next.manifest.flushed_lsn;
  edition_ = next.manifest.edition;
  collect_due_ = collect_due;
  next.manifest.runs.clear();
  next.manifest.value_segments.clear();
  next.manifest.log_segments.clear();
  manifest_ = std::move(next.manifest);
  InstallLocked(std::move(version));
  changed_.notify_all();
}

// A copy of the Version that there is, to be changed and installed. All of it that needs memory.
std::shared_ptr<Version> DbImpl::SuccessorLocked(VersionChange& change) const {
  auto next = std::make_shared<Version>(*current_);
  next->immutables.reserve(next->immutables.size() + 1);  // the active one may join them
  change.Replace(current_);
  return next;
}

// `next` is of SuccessorLocked. The neighbours' board first: nothing is written into a new MemTable
// that they do not know of.
void DbImpl::InstallLocked(std::shared_ptr<Version> next) noexcept {
  next->edition = edition_;
  BoardState board;
  board.edition = edition_;
  board.newest_ssid = next_ssid_.load(std::memory_order_relaxed) - 1;
  board.has_base = next->base != nullptr;
  const auto add = [&board](const PooledMemTable& handle) {
    BoardState::Live& live = board.live[board.live_count++];
    live.pool_slot =
        handle.pool_slot() < 0 ? kNotShared : static_cast<uint32_t>(handle.pool_slot());
    live.generation = handle.generation();
  };
  if (next->active != nullptr) {
    add(*next->active);
    for (const std::shared_ptr<PooledMemTable>& handle : next->immutables) add(*handle);
    pool_->region().Publish(board);
  }
  current_ = std::move(next);
  version_.store(current_.get(), std::memory_order_release);
}

}  // namespace quire::lsm
