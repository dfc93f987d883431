#include "lsm/offline/salvage.h"

#include <algorithm>
#include <new>

#include "base/text/coding.h"
#include "base/text/printable.h"
#include "log/segment.h"
#include "lsm/memtable/sorted_view.h"

namespace quire::lsm {
namespace {

constexpr size_t kKeysTold = 5;

log::ValueRef ReferenceIn(Slice value) {
  return base::LoadLe<log::ValueRef>(value.data());
}

bool RefersTo(const table::Entry& entry, const std::set<uint64_t>& segments) {
  return entry.type == log::RecordType::kValueRef &&
         segments.contains(ReferenceIn(entry.value).segment_id);
}

bool IsEmpty(const table::RangeTombstone& tombstone) {
  return tombstone.begin >= tombstone.end;
}

// A value that a failing device does not give is not lost.
Result<bool> HasItsValue(const char* record, const ValueReader& values) {
  if (log::HeaderAt(record)->type != log::RecordType::kValueRef) return true;
  const Status checked = values.Check(ReferenceIn(log::ValueOf(record)));
  if (checked.ok()) return true;
  if (ValueIsLost(checked)) return false;
  return checked;
}

// The end of the records that were finished, as far as the marks of the segment say.
uint64_t MarkedEnd(const char* segment, const log::SegmentHeader& header) {
  const uint64_t end = std::max({log::CompleteMark(segment, header.generation),
                                 log::ClosedMark(segment, header.generation),
                                 log::DurableMark(segment, header.generation)});
  return std::min(end, header.capacity);
}

Result<SalvagedLog> Salvage(io::FileSystem& fs, const std::string& path,
                            const ValueReader& values) {
  SalvagedLog salvaged;
  QUIRE_ASSIGN_OR_RETURN(salvaged.memory, PooledMemTable::Copy(fs, path));
  MemTable& table = salvaged.memory->table();
  const log::SegmentHeader& header = salvaged.memory->header();
  const auto take = [&](uint64_t offset, const char* record) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const bool whole, HasItsValue(record, values));
    if (!whole) {
      salvaged.lost.Add(log::KeyOf(record));
      return Status();
    }
    if (log::HeaderAt(record)->type == log::RecordType::kValueRef) {
      const log::ValueRef reference = ReferenceIn(log::ValueOf(record));
      salvaged.value_segments[reference.segment_id].Add(reference);
    }
    return table.Adopt(offset);
  };
  const log::SegmentBytes bytes = salvaged.memory->Bytes();
  QUIRE_ASSIGN_OR_RETURN(const log::ReplayReport report,
                         log::ReplayForRepair(bytes, header, path, take));
  salvaged.memory->FinishAdoption(report.end);
  salvaged.records = report.records - salvaged.lost.count;
  salvaged.holes = report.holes;
  salvaged.hole_bytes = report.hole_bytes;
  const uint64_t marked_end = MarkedEnd(bytes.data, header);
  if (report.end < marked_end) {  // damage behind which no record was found
    ++salvaged.holes;
    salvaged.hole_bytes += marked_end - report.end;
  }
  return salvaged;
}

// Hands on the entries of a table.
class TableSalvager {
 public:
  TableSalvager(const std::set<uint64_t>& gone, RunWriter* writer, SalvagedTable* result)
      : gone_(gone), writer_(writer), result_(result) {}

  // Takes all entries, until the iterator is not valid any more.
  Status TakeAll(table::EntryIterator& entries) {
    for (; entries.Valid(); entries.Next()) {
      if (RefersTo(*entries.entry(), gone_)) {
        result_->lost.Add(entries.key());
        continue;
      }
      ++result_->kept;
      if (writer_ == nullptr) continue;
      const bool new_key = entries.key() != Slice(last_key_);
      last_key_.assign(entries.key());
      QUIRE_RETURN_IF_ERROR(
          writer_->Add(entries.key(), entries.type(), entries.value(), entries.lsn(), new_key));
    }
    return Status();
  }

 private:
  const std::set<uint64_t>& gone_;
  RunWriter* const writer_;
  std::string last_key_;
  SalvagedTable* const result_;
};

}  // namespace

void LostVersions::Add(Slice key) {
  ++count;
  if (some_keys.size() < kKeysTold) some_keys.emplace_back(key);
}

Result<LogRemains> FindLogRemains(io::FileSystem& fs, const std::string& directory,
                                  const std::vector<uint64_t>& pool_slots,
                                  const std::function<bool(const log::SegmentHeader&)>& wanted) {
  LogRemains remains;
  for (const uint64_t pool_slot : pool_slots) {
    LogRemains::Segment segment;
    segment.pool_slot = pool_slot;
    segment.path = directory + "/" + LogSegmentName(static_cast<int>(pool_slot));
    const Result<log::SegmentHeader> header = log::ReadSegmentHeader(fs, segment.path);
    if (header.status().code() == Code::kNotFound) continue;  // never used
    if (!header.ok() && header.status().code() != Code::kCorruption) return header.status();
    if (header.ok() && header->kind == log::SegmentKind::kLog) {
      segment.base_lsn = header->base_lsn;
      segment.end_lsn = header->base_lsn + header->capacity;
      remains.lsn_end = std::max(remains.lsn_end, segment.end_lsn);
      remains.owner_epoch = std::max(remains.owner_epoch, header->owner_epoch);
      if (header->previous_end_lsn == 0 || !wanted(*header)) continue;
    } else {
      segment.base_lsn = UINT64_MAX;
      segment.status = header.ok() ? Status(Code::kCorruption, segment.path + " is no log segment")
                                   : header.status();
    }
    remains.segments.push_back(std::move(segment));
  }
  std::sort(remains.segments.begin(), remains.segments.end(),
            [](const auto& a, const auto& b) { return a.base_lsn < b.base_lsn; });
  return remains;
}

Result<SalvagedLog> SalvageLog(io::FileSystem& fs, const std::string& path,
                               const ValueReader& values) {
  try {
    return Salvage(fs, path, values);
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, "no memory for the log segment " + path);
  }
}

Status WriteAll(const PooledMemTable& memory, RunWriter& writer) {
  const std::shared_ptr<const SortedView> view = memory.table().NewView(kMaxLsn);
  std::vector<table::RangeTombstone> tombstones = view->RangeTombstones();
  std::erase_if(tombstones, IsEmpty);
  writer.SetTombstones(std::move(tombstones));
  const std::unique_ptr<table::EntryIterator> entries = view->NewIterator(true);
  for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
    QUIRE_RETURN_IF_ERROR(
        writer.Add(entries->key(), entries->type(), entries->value(), entries->lsn(), true));
  }
  return entries->status();
}

Result<SalvagedTable> SalvageTable(io::FileSystem& fs, const std::string& path,
                                   const table::TableInfo& info, const StorageOptions& options,
                                   const std::set<uint64_t>& gone, RunWriter* writer) {
  QUIRE_ASSIGN_OR_RETURN(
      const std::shared_ptr<table::Table> table,
      table::Table::Open(fs, path, info.ssid, options, table::NewBlockCache(options.cache_bytes)));
  SalvagedTable salvaged;
  QUIRE_ASSIGN_OR_RETURN(salvaged.ranges, table->FindLostRanges());
  if (writer != nullptr) writer->SetTombstones(table->range_tombstones());
  TableSalvager salvager(gone, writer, &salvaged);
  const std::unique_ptr<table::EntryIterator> entries = table->NewIterator(false);
  entries->SeekToFirst();
  for (auto range = salvaged.ranges.begin();; ++range) {
    QUIRE_RETURN_IF_ERROR(salvager.TakeAll(*entries));
    const bool damaged = entries->status().code() == Code::kCorruption;
    if (!damaged || range == salvaged.ranges.end()) break;
    entries->Seek(range->up_to + '\0');  // what comes behind all versions of the last lost key
  }
  QUIRE_RETURN_IF_ERROR(entries->status());
  return salvaged;
}

std::string Describe(const LostVersions& lost) {
  std::string text = std::to_string(lost.count) + (lost.count == 1 ? " value (" : " values (");
  for (const std::string& key : lost.some_keys) {
    text += (&key == lost.some_keys.data() ? "key " : ", ") + base::Printable(key);
  }
  return text + (lost.count > lost.some_keys.size() ? ", ...)" : ")");
}

std::vector<std::string> LossesOf(const std::string& path, const table::TableInfo& info,
                                  const SalvagedTable& salvaged) {
  std::vector<std::string> losses;
  if (salvaged.lost.count != 0) {
    losses.push_back(path + ": " + Describe(salvaged.lost) +
                     " lay in value segments that are gone");
  }
  for (const table::LostRange& range : salvaged.ranges) {
    losses.push_back(path + ": damaged blocks had keys " +
                     (range.after.has_value() && !range.with_after ? "above " : "from ") +
                     base::Printable(range.after.value_or(info.smallest_key)) +
                     " up to " + base::Printable(range.up_to));
  }
  const uint64_t readable = salvaged.kept + salvaged.lost.count;
  if (!losses.empty() && readable < info.entry_count) {
    losses.push_back(path + ": " + std::to_string(info.entry_count - readable) + " of its " +
                     std::to_string(info.entry_count) + " entries are lost with them");
  }
  return losses;
}

}  // namespace quire::lsm
