// Flushing: the oldest immutable MemTable becomes a table.
#include <algorithm>
#include <utility>

#include "base/out_of_memory.h"
#include "base/sync_point.h"
#include "lsm/db/db_impl.h"
#include "lsm/version/run_writer.h"
#include "lsm/memtable/sorted_view.h"
#include "lsm/version/version_filter.h"

namespace quire::lsm {
namespace {

// Where one thread does all, a merge goes on for a byte after so many bytes that were flushed.
constexpr uint64_t kFlushedPerMergedByte = 4;

// Tombstones of ranges that hold nothing are no tombstones.
std::vector<table::RangeTombstone> RealTombstones(const SortedView& view) {
  std::vector<table::RangeTombstone> tombstones = view.RangeTombstones();
  std::erase_if(tombstones, [](const table::RangeTombstone& tombstone) {
    return tombstone.begin >= tombstone.end;
  });
  return tombstones;
}

}  // namespace

// While there are too many runs, and a merge goes on or a short one is due, flushes wait for it. A
// merge that another database keeps from its thread is no reason.
bool DbImpl::TooManyRunsLocked() const {
  const size_t idle = current_->runs.size() - busy_runs_.size();
  const size_t count = idle + (busy_runs_.empty() ? 0 : 1);
  if (count < RunCountMax(options_) || !compaction_shortage_.ok()) return false;
  return merging_ > 0 || PickLocked(MergeSize::kShort).count > 0;
}

bool DbImpl::FlushableLocked() const {
  return !flushing_ && !closing_ && failure_.ok() && shortage_.ok() &&
         !current_->immutables.empty();
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
void DbImpl::FlushJob() { FlushOnce(); }

// Flushes the oldest immutable MemTable, if that is due; false where it is not, or failed.
bool DbImpl::FlushOnce() {
  std::shared_ptr<PooledMemTable> memory;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!FlushDueLocked()) return false;
    flushing_ = true;
    memory = current_->immutables.back();
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
  // What the table will refer to is durable before the manifest names the table.
  base::SyncPoint("lsm.flush.begin");
  QUIRE_RETURN_IF_ERROR(values_->Sync());
  // What it refers to is protected by its MemTable, which counts until the manifest has the tables.
  RunWriter writer(fs_, directory_, options_, check_held_,
                   [this] { return next_ssid_.fetch_add(1); },
                   SegmentTracker::Protection::NotNeeded());
  QUIRE_RETURN_IF_ERROR(WriteMemTable(*memory, writer));
  base::SyncPoint("lsm.flush.written");
  RunEdit edit;
  edit.flushed = memory;
  uint64_t bytes = 0;
  QUIRE_RETURN_IF_ERROR(PublishRun(writer, edit, &bytes));
  counters_.Add(StorageCounter::kFlushBytes, bytes);
  counters_.Add(StorageCounter::kFlushCount, 1);
  return Status();
}

Status DbImpl::WriteMemTable(const PooledMemTable& memory, RunWriter& writer) {
  const std::shared_ptr<const SortedView> view = memory.table().NewView(kMaxLsn);
  const std::vector<table::RangeTombstone> tombstones = RealTombstones(*view);
  std::vector<uint64_t> snapshots = snapshots_.All();
  // Others see all of this MemTable, or nothing.
  std::erase_if(snapshots,
                [&](uint64_t lsn) { return lsn < memory.base_lsn() || lsn >= memory.end_lsn(); });
  bool bottom = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    bottom = current_->runs.empty() && current_->base == nullptr;
  }
  VersionFilter filter(snapshots, tombstones, bottom);
  writer.SetTombstones(filter.KeptTombstones());
  const std::unique_ptr<table::EntryIterator> entries = view->NewIterator(snapshots.empty());
  const bool keep_all = snapshots.empty() && tombstones.empty() && !bottom;
  for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
    const Slice key = entries->key();
    const log::RecordType type = entries->type();
    const uint64_t lsn = entries->lsn();
    if (!keep_all && !filter.Keep(key, type, lsn)) continue;
    QUIRE_RETURN_IF_ERROR(
        writer.Add(key, type, entries->value(), lsn, keep_all || filter.at_new_key()));
  }
  return entries->status();
}

// Finishes the tables of `writer` and makes them count in the place that `edit` names (whose
// inputs, but for `obsolete` tables, stay in the run). Removes them where that fails.
Status DbImpl::PublishRun(RunWriter& writer, RunEdit& edit, uint64_t* bytes) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<table::TableInfo> tables, writer.Finish());
  Status status = tables.empty() ? Status() : fs_.SyncDirectory(directory_);
  if (status.ok()) status = BuildOutput(tables, edit);
  if (status.ok()) status = Publish(edit);
  const bool in_doubt = manifest_in_doubt_.load(std::memory_order_acquire);
  if (!status.ok() && !in_doubt) writer.Remove();
  *bytes = 0;
  for (const table::TableInfo& table : tables) *bytes += table.file_bytes;
  return status;
}

// Opens the new tables; edit.kept are those of the inputs that stay beside them.
Status DbImpl::BuildOutput(const std::vector<table::TableInfo>& tables, RunEdit& edit) {
  std::vector<std::shared_ptr<TableHandle>> handles = edit.kept;
  for (const table::TableInfo& info : tables) {
    QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<TableHandle> handle, OpenTable(Tables(), info));
    handles.push_back(std::move(handle));
  }
  std::sort(handles.begin(), handles.end(), [](const auto& a, const auto& b) {
    return a->info().smallest_key < b->info().smallest_key;
  });
  edit.output = handles.empty() ? nullptr : std::make_shared<const Run>(std::move(handles));
  return Status();
}

}  // namespace quire::lsm
