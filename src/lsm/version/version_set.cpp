#include "lsm/version/version_set.h"

#include <algorithm>
#include <utility>

#include "base/core/check.h"
#include "base/core/out_of_memory.h"
#include "base/core/unknown_outcome.h"
#include "base/threads/epoch.h"
#include "base/threads/sync_point.h"
#include "lsm/version/recovery.h"

namespace quire::lsm {

Status VersionSet::TakeOver(const Manifest& stored, Manifest next, bool exists) {
  if (exists) QUIRE_RETURN_IF_ERROR(WriteManifest(next, stored.epoch));
  next.runs.clear();
  next.value_segments.clear();
  manifest_ = std::move(next);
  edition_ = manifest_.edition;
  flushed_lsn_ = stored.flushed_lsn;
  next_ssid_.store(stored.next_ssid);
  return Status();
}

void VersionSet::Attach(MemTablePool* pool, ValueLog* values) {
  pool_ = pool;
  values_ = values;
}

void VersionSet::SetBoot(uint64_t boot_id) {
  const std::lock_guard<std::mutex> publish_lock(publish_mutex_);
  manifest_.boot_id = boot_id;
}

std::shared_ptr<const Version> VersionSet::Pin() const {
  const base::EpochGuard guard;
  return Load().shared_from_this();
}

std::shared_ptr<const Version> VersionSet::TablesOf(const Version& version) {
  auto tables = std::make_shared<Version>(version);
  tables->active = nullptr;
  tables->immutables.clear();
  return tables;
}

std::shared_ptr<const Version> VersionSet::TakeLastLocked() {
  version_.store(nullptr, std::memory_order_release);
  return std::move(current_);
}

void VersionSet::ObserveSegments() {
  const std::lock_guard<std::mutex> publish_lock(publish_mutex_);
  LookAtSegments();
}

// Returns the runs after `edit`. publish_mutex_ is held, so that no other thread changes them.
std::vector<std::shared_ptr<const Run>> VersionSet::EditedRuns(const RunEdit& edit) const {
  std::vector<std::shared_ptr<const Run>> runs;
  {
    const std::lock_guard<std::mutex> lock(locks_.mutex);
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

SegmentUses VersionSet::UsesOf(const std::vector<std::shared_ptr<const Run>>& runs) {
  SegmentUses uses;
  for (const std::shared_ptr<const Run>& run : runs) {
    for (const std::shared_ptr<TableHandle>& table : run->tables()) {
      for (const table::SegmentUse& use : table->info().segments) uses[use.segment_id] += use.bytes;
    }
  }
  return uses;
}

// Checks the state of the value segments, which may have changed since the last time.
void VersionSet::LookAtSegments() {
  const std::vector<ValueSegmentInfo> segments = values_->Segments();
  // First the segments past the grace period, then the state of the MemTables.
  const std::set<uint64_t> graced = segments_.Graced();
  base::SyncPoint("lsm.observe.graced");
  MemoryState memory;
  {
    const std::lock_guard<std::mutex> lock(locks_.mutex);
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

// Makes the headers of the log segments that stay durable: from then on the manifest can demand
// them.
Status VersionSet::SyncLiveHeaders(const std::shared_ptr<PooledMemTable>& flushed) {
  std::vector<std::shared_ptr<PooledMemTable>> live;
  {
    const std::lock_guard<std::mutex> lock(locks_.mutex);
    live = current_->immutables;
    if (current_->active != nullptr) live.push_back(current_->active);
  }
  const std::lock_guard<std::mutex> sync_lock(locks_.sync_mutex);
  for (const std::shared_ptr<PooledMemTable>& handle : live) {
    if (handle != flushed) QUIRE_RETURN_IF_ERROR(handle->SyncHeader());
  }
  return Status();
}

Manifest VersionSet::NextManifest(const RunEdit& edit,
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
  const std::lock_guard<std::mutex> lock(locks_.mutex);
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

// kIo if it is not certain that the old manifest is in force: files that the new one names must
// stay then. It is certain if memory or another resource was missing (ReplaceFile).
Status VersionSet::WriteManifest(const Manifest& manifest, uint64_t previous_epoch) {
  const Status status = base::OrOutOfMemory(
      [&] { return PublishManifest(fs_, directory_, manifest, previous_epoch); });
  if (status.ok() || status.code() == Code::kBusy || IsShortage(status)) return status;
  uint64_t stored = manifest.edition;
  const Status read = base::OrOutOfMemory([&]() -> Status {
    QUIRE_ASSIGN_OR_RETURN(stored, StoredEdition(fs_, directory_));
    return Status();
  });
  return read.ok() && stored != manifest.edition ? status : InDoubt(status);
}

Status VersionSet::InDoubt(const Status& why) {
  in_doubt_.store(true, std::memory_order_release);
  const Status unknown = base::OrOutOfMemory(
      [&] { return base::UnknownOutcome(why, "; whether the new manifest counts is not known"); });
  return unknown.code() == Code::kIo ? unknown : Status(Code::kIo);
}

// Fails if in doubt: no publication may build on what readers here see, as the manifest may be
// another opener's.
Status VersionSet::CheckCertain() const {
  if (!in_doubt()) return Status();
  return Status(Code::kReadOnly, "after a failure it is not known which manifest counts in " +
                                     directory_ + "; reopen it when the cause is gone");
}

Status VersionSet::Publish(const RunEdit& edit) {
  base::SyncPoint("lsm.publish.before");
  const std::lock_guard<std::mutex> publish_lock(publish_mutex_);
  QUIRE_RETURN_IF_ERROR(CheckCertain());
  // First the floor, then what lies below it: none there is missing from the list.
  const uint64_t open_floor = values_->open_floor();
  LookAtSegments();
  QUIRE_RETURN_IF_ERROR(SyncLiveHeaders(edit.flushed));
  Publication next = Prepare(edit, open_floor);
  QUIRE_RETURN_IF_ERROR(WriteManifest(next.manifest, next.manifest.epoch));
  base::SyncPoint("lsm.publish.written");
  ShowPublished(edit, std::move(next));
  base::SyncPoint("lsm.publish.after");
  return Status();
}

// All the memory that a publication takes. Were it missing once the manifest is written, the new
// manifest would count while readers here see the old runs.
VersionSet::Publication VersionSet::Prepare(const RunEdit& edit, uint64_t open_floor) const {
  Publication next;
  std::vector<std::shared_ptr<const Run>> runs = EditedRuns(edit);
  const SegmentUses uses = UsesOf(runs);
  next.unused = segments_.Unused(uses);
  next.manifest = NextManifest(edit, runs, open_floor);
  std::erase_if(next.manifest.value_segments,
                [&](const StoredSegment& segment) { return next.unused.contains(segment.id); });
  next.version = std::make_shared<Version>();
  {
    const std::lock_guard<std::mutex> lock(locks_.mutex);
    next.version->immutables.reserve(current_->immutables.size() + pool_->live_max());
  }
  next.version->runs = std::move(runs);
  next.version->segments = segments_.HandlesWithout(next.unused);
  next.version->segments_floor = open_floor;
  for (const uint64_t id : segments_.MostlyDead(uses)) {
    next.collect_due = next.collect_due || !next.unused.contains(id);
  }
  return next;
}

// Shows readers what the manifest on the disk says by now. Takes no memory.
void VersionSet::ShowPublished(const RunEdit& edit, Publication next) noexcept {
  segments_.GiveUp(std::move(next.unused));
  for (const std::shared_ptr<TableHandle>& table : edit.obsolete) table->SetObsolete();
  if (edit.flushed != nullptr) edit.flushed->SetFlushed();

  Change change(*this);
  Version& version = *next.version;
  version.active = current_->active;
  QUIRE_CHECK(current_->immutables.size() <= version.immutables.capacity());
  version.immutables = current_->immutables;
  version.base = current_->base;
  change.Replace(std::move(next.retirement), current_);
  if (edit.flushed != nullptr) std::erase(version.immutables, edit.flushed);
  flushed_lsn_ = next.manifest.flushed_lsn;
  edition_ = next.manifest.edition;
  collect_due_ = next.collect_due;
  next.manifest.runs.clear();
  next.manifest.value_segments.clear();
  next.manifest.log_segments.clear();
  manifest_ = std::move(next.manifest);
  InstallLocked(std::move(next.version));
  locks_.changed.notify_all();
}

std::shared_ptr<Version> VersionSet::Successor(Change& change) const {
  auto next = std::make_shared<Version>(*current_);
  next->immutables.reserve(next->immutables.size() + 1);  // the active one may join them
  change.Replace(Retirement(), current_);
  return next;
}

void VersionSet::InstallLocked(std::shared_ptr<Version> next) noexcept {
  next->edition = edition_;
  BoardState board;
  board.edition = edition_;
  board.newest_ssid = newest_ssid();
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

Result<Moment> VersionSet::Now() {
  const std::lock_guard<std::mutex> publish_lock(publish_mutex_);
  QUIRE_RETURN_IF_ERROR(CheckCertain());
  // First the floor: the segments below it are seen as closed.
  Moment moment{nullptr, manifest_, segments_.Protect(values_->open_floor())};
  LookAtSegments();
  {
    const std::lock_guard<std::mutex> lock(locks_.mutex);
    moment.version = current_;
    moment.manifest.flushed_lsn = flushed_lsn_;
  }
  moment.version = TablesOf(*moment.version);
  const std::vector<std::shared_ptr<const Run>>& runs = moment.version->runs;
  for (const std::shared_ptr<const Run>& run : runs) {
    std::vector<table::TableInfo>& tables = moment.manifest.runs.emplace_back();
    for (const std::shared_ptr<TableHandle>& table : run->tables()) tables.push_back(table->info());
  }
  moment.manifest.next_value_segment_id = values_->next_id();
  moment.manifest.value_segment_floor = moment.manifest.next_value_segment_id;
  SegmentUses uses = UsesOf(runs);
  for (const StoredSegment& segment : segments_.Stored()) {
    if (uses.erase(segment.id) != 0) moment.manifest.value_segments.push_back(segment);
  }
  if (uses.empty()) return moment;
  return MissingFile(directory_ + "/" + ValueSegmentName(uses.begin()->first), "a value segment");
}

// Fills in the sizes of segments that were open then, and are sealed now.
void VersionSet::FillSizes(std::vector<StoredSegment>* segments) {
  const std::lock_guard<std::mutex> publish_lock(publish_mutex_);
  LookAtSegments();
  std::map<uint64_t, uint64_t> sizes;
  for (const StoredSegment& segment : segments_.Stored()) sizes[segment.id] = segment.file_bytes;
  for (StoredSegment& segment : *segments) {
    if (segment.file_bytes == 0) segment.file_bytes = sizes[segment.id];
    QUIRE_CHECK(segment.file_bytes != 0);
  }
}

}  // namespace quire::lsm
