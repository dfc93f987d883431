#include "lsm/jobs/compaction_job.h"

#include <algorithm>
#include <string>

#include "base/core/check.h"
#include "base/text/coding.h"
#include "base/threads/sync_point.h"
#include "lsm/version/entry_sink.h"
#include "lsm/version/run_iterator.h"
#include "lsm/version/version_filter.h"
#include "table/merging_iterator.h"

namespace quire::lsm {
namespace {

// A merge looks after so many bytes what else is due. An entry costs as much as these of a value.
constexpr uint64_t kBytesPerLook = 1 << 20;
constexpr uint64_t kBytesPerEntry = 256;

size_t CommonBytes(Slice a, Slice b) {
  const size_t size = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(size), b.begin()).first -
      a.begin());
}

}  // namespace

uint64_t CompactionInputs::bytes() const {
  uint64_t bytes = 0;
  for (const std::shared_ptr<TableHandle>& table : tables) bytes += table->info().file_bytes;
  return bytes;
}

size_t CompactionInputs::CommonKeyBytes() const {
  Slice smallest = tables.front()->info().smallest_key;
  Slice largest = tables.front()->info().largest_key;
  for (const std::shared_ptr<TableHandle>& table : tables) {
    smallest = std::min(smallest, Slice(table->info().smallest_key));
    largest = std::max(largest, Slice(table->info().largest_key));
  }
  return CommonBytes(smallest, largest);
}

std::vector<table::RangeTombstone> CompactionInputs::Tombstones() const {
  std::vector<table::RangeTombstone> tombstones;
  for (const std::shared_ptr<TableHandle>& table : tables) {
    const std::vector<table::RangeTombstone>& more = table->table().range_tombstones();
    tombstones.insert(tombstones.end(), more.begin(), more.end());
  }
  return tombstones;
}

std::vector<std::unique_ptr<table::EntryIterator>> CompactionInputs::Entries() const {
  std::vector<std::unique_ptr<table::EntryIterator>> entries;
  if (tables.size() == 1) {
    entries.push_back(tables[0]->table().NewIterator(false));
  } else {
    for (const auto& run : runs) entries.push_back(NewRunIterator(*run, false));
  }
  return entries;
}

// Moves values out of the segments that are to be emptied, before their references are written. A
// damaged value is not moved: a copy would look sound.
class CompactionJob::ValueMover final : public EntrySink {
 public:
  ValueMover(const CompactionJob& job, RunWriter& writer) : job_(job), writer_(writer) {}

  Status Add(Slice key, log::RecordType type, Slice value, uint64_t lsn, bool new_key) override {
    if (type == log::RecordType::kValueRef && !job_.inputs_.collect.empty()) {
      QUIRE_RETURN_IF_ERROR(Move(key, &value));
    }
    return writer_.Add(key, type, value, lsn, new_key);
  }
  /// Bytes of values that were moved since the last call.
  uint64_t TakeMovedBytes() { return std::exchange(moved_bytes_, 0); }
  bool moved_any() const { return moved_any_; }

 private:
  Status Move(Slice key, Slice* reference) {
    const auto from = base::LoadLe<log::ValueRef>(reference->data());
    if (!job_.inputs_.collect.contains(from.segment_id)) return Status();
    const Status read = job_.calls_.values->ResolveReference(*reference, Into(&value_));
    if (read.code() == Code::kCorruption) {
      job_.calls_.log_failure(read);
      job_.parts_.versions->segments().Exclude(from.segment_id);
      return Status();
    }
    QUIRE_RETURN_IF_ERROR(read);
    QUIRE_RETURN_IF_ERROR(job_.calls_.append_value(key, value_, &moved_));
    // Otherwise another publication might judge the segment before this merge's tables are in
    // force.
    QUIRE_CHECK(writer_.protection().Covers(moved_.segment_id));
    base::SyncPoint("lsm.merge.moved");
    moved_any_ = true;
    moved_bytes_ += value_.size();
    *reference = Slice(reinterpret_cast<const char*>(&moved_), sizeof moved_);
    return Status();
  }

  const CompactionJob& job_;
  RunWriter& writer_;
  std::string value_;
  log::ValueRef moved_;  // of the last value
  uint64_t moved_bytes_ = 0;
  bool moved_any_ = false;
};

Status CompactionJob::Run() {
  base::SyncPoint("lsm.merge.begin");
  RunWriter writer =
      NewRunWriter(parts_, parts_.versions->segments().Protect(parts_.values->open_floor()));
  ValueMover sink(*this, writer);
  QUIRE_RETURN_IF_ERROR(MergeEntries(writer, sink));
  if (sink.moved_any()) {
    QUIRE_RETURN_IF_ERROR(parts_.values->Sync());
    base::SyncPoint("lsm.merge.values-synced");
  }
  base::SyncPoint("lsm.merge.written");
  RunEdit edit = Edit();
  QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, PublishRun(parts_, writer, &edit));
  parts_.counters->Add(StorageCounter::kCompactionReadBytes, inputs_.bytes());
  parts_.counters->Add(StorageCounter::kCompactionWriteBytes, bytes);
  parts_.counters->Add(StorageCounter::kCompactionCount, 1);
  return Status();
}

RunEdit CompactionJob::Edit() const {
  RunEdit edit;
  edit.inputs = inputs_.runs;
  edit.obsolete = inputs_.tables;
  if (inputs_.runs.size() != 1) return edit;
  for (const std::shared_ptr<TableHandle>& table : inputs_.runs[0]->tables()) {
    const bool merged =
        std::find(inputs_.tables.begin(), inputs_.tables.end(), table) != inputs_.tables.end();
    if (!merged) edit.kept.push_back(table);
  }
  return edit;
}

Status CompactionJob::MergeEntries(RunWriter& writer, ValueMover& sink) {
  const std::vector<table::RangeTombstone> tombstones = inputs_.Tombstones();
  VersionFilter filter(parts_.snapshots->All(), tombstones, inputs_.bottom);
  writer.SetTombstones(filter.KeptTombstones());
  table::MergingIterator entries(inputs_.Entries(), inputs_.CommonKeyBytes());
  uint64_t bytes = 0;
  for (entries.SeekToFirst(); entries.Valid(); entries.Next()) {
    bytes += kBytesPerEntry + entries.value().size();
    if (bytes >= kBytesPerLook && calls_.interrupted(std::exchange(bytes, 0))) {
      return Status(Code::kBusy, "the database is being closed");
    }
    if (!filter.Keep(entries.key(), entries.type(), entries.lsn())) continue;
    QUIRE_RETURN_IF_ERROR(sink.Add(entries.key(), entries.type(), entries.value(), entries.lsn(),
                                   filter.at_new_key()));
    bytes += sink.TakeMovedBytes();
  }
  return entries.status();
}

}  // namespace quire::lsm
