#include "lsm/jobs/flush_job.h"

#include <mutex>
#include <vector>

#include "base/threads/sync_point.h"
#include "lsm/memtable/sorted_view.h"
#include "lsm/version/version_filter.h"

namespace quire::lsm {
namespace {

// Returns the tombstones, without those of empty ranges.
std::vector<table::RangeTombstone> RealTombstones(const SortedView& view) {
  std::vector<table::RangeTombstone> tombstones = view.RangeTombstones();
  std::erase_if(tombstones, [](const table::RangeTombstone& tombstone) {
    return tombstone.begin >= tombstone.end;
  });
  return tombstones;
}

}  // namespace

Status FlushJob::Run() {
  // The values that the table will refer to are durable before the manifest names the table.
  base::SyncPoint("lsm.flush.begin");
  QUIRE_RETURN_IF_ERROR(parts_.values->Sync());
  // The MemTable protects those values: it counts until the manifest has the tables.
  RunWriter writer = NewRunWriter(parts_, SegmentTracker::Protection::NotNeeded());
  QUIRE_RETURN_IF_ERROR(WriteEntries(writer));
  base::SyncPoint("lsm.flush.written");
  RunEdit edit;
  edit.flushed = memory_;
  QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, PublishRun(parts_, writer, &edit));
  parts_.counters->Add(StorageCounter::kFlushBytes, bytes);
  parts_.counters->Add(StorageCounter::kFlushCount, 1);
  return Status();
}

Status FlushJob::WriteEntries(RunWriter& writer) const {
  const std::shared_ptr<const SortedView> view = memory_->table().NewView(kMaxLsn);
  const std::vector<table::RangeTombstone> tombstones = RealTombstones(*view);
  std::vector<uint64_t> snapshots = parts_.snapshots->All();
  // Others see all of this MemTable, or nothing.
  std::erase_if(snapshots, [&](uint64_t lsn) {
    return lsn < memory_->base_lsn() || lsn >= memory_->end_lsn();
  });
  bool bottom = false;
  {
    const std::lock_guard<std::mutex> lock(*parts_.mutex);
    const Version& current = *parts_.versions->current();
    bottom = current.runs.empty() && current.base == nullptr;
  }
  VersionFilter filter(snapshots, tombstones, bottom);
  writer.SetTombstones(filter.KeptTombstones());
  EntrySink& sink = writer;
  const std::unique_ptr<table::EntryIterator> entries = view->NewIterator(snapshots.empty());
  const bool keep_all = snapshots.empty() && tombstones.empty() && !bottom;
  for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
    const Slice key = entries->key();
    const log::RecordType type = entries->type();
    const uint64_t lsn = entries->lsn();
    if (!keep_all && !filter.Keep(key, type, lsn)) continue;
    QUIRE_RETURN_IF_ERROR(
        sink.Add(key, type, entries->value(), lsn, keep_all || filter.at_new_key()));
  }
  return entries->status();
}

}  // namespace quire::lsm
