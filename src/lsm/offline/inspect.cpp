#include "lsm/offline/inspect.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/text/coding.h"
#include "log/segment.h"
#include "lsm/memtable/sorted_view.h"
#include "lsm/version/run_opener.h"
#include "lsm/vlog/value_log.h"

namespace quire::lsm {
namespace {

bool Vanished(const Finding& finding) {
  return finding.status.code() == Code::kNotFound;
}

const char* NameOf(FileKind kind) {
  if (kind == FileKind::kLog) return "a log segment";
  return kind == FileKind::kTable ? "a table" : "a value segment";
}

class Inspector {
 public:
  Inspector(io::FileSystem& fs, std::string directory, const InspectOptions& options)
      : fs_(fs), directory_(std::move(directory)), options_(options) {}

  Result<Inspection> Run();

 private:
  using OpenTables = std::vector<std::shared_ptr<TableHandle>>;
  struct SegmentState {
    uint64_t damaged = 0;
    Status first;
  };

  Status ReadStored();
  OpenTables OpenListed();
  OpenTables OpenFound();
  void CheckTables(const OpenTables& tables);
  Status CheckEntries(table::EntryIterator& entries);
  void CheckSegments();
  void CheckLog();
  void ForgetVanished();
  void Add(FileKind kind, uint64_t number, const std::string& name, const Status& status);
  void Advance(uint64_t bytes);
  std::string PathOf(const std::string& name) const { return directory_ + "/" + name; }

  io::FileSystem& fs_;
  const std::string directory_;
  const InspectOptions& options_;
  const std::shared_ptr<table::BlockCache> cache_ =
      table::NewBlockCache(options_.storage.cache_bytes);
  const std::unique_ptr<ValueReader> values_ = ValueReader::Create(fs_, directory_);
  std::map<uint64_t, SegmentState> segments_;  // those that tables refer to
  uint64_t total_ = 0;
  Inspection result_;
};

// Adds a finding. A missing file is damage here, because some other file names it.
void Inspector::Add(FileKind kind, uint64_t number, const std::string& name, const Status& status) {
  Finding finding;
  finding.kind = kind;
  finding.number = number;
  finding.path = PathOf(name);
  finding.status = status;
  result_.findings.push_back(std::move(finding));
}

void Inspector::Advance(uint64_t bytes) {
  result_.bytes += bytes;
  if (options_.progress) options_.progress(result_.bytes, std::max(total_, result_.bytes));
}

Result<Inspection> Inspector::Run() {
  QUIRE_ASSIGN_OR_RETURN(result_.files, ReadDirectory(fs_, directory_));
  QUIRE_RETURN_IF_ERROR(ReadStored());
  if (!options_.has_lock) {
    QUIRE_ASSIGN_OR_RETURN(result_.writer, fs_.LockHolder(LockPath(directory_)));
  }
  const OpenTables tables = result_.has_manifest ? OpenListed() : OpenFound();
  for (const std::shared_ptr<TableHandle>& table : tables) {
    total_ += table->info().file_bytes;
    for (const table::SegmentUse& use : table->info().segments) {
      total_ += use.bytes;
      segments_[use.segment_id];
    }
  }
  CheckTables(tables);
  if (result_.has_manifest && result_.writer.empty()) CheckLog();
  CheckSegments();
  ForgetVanished();
  return std::move(result_);
}

Status Inspector::ReadStored() {
  Result<Manifest> stored = ReadManifest(fs_, directory_);
  if (stored.ok()) {
    result_.has_manifest = true;
    result_.manifest = std::move(*stored);
    return Status();
  }
  Status problem = stored.status();
  if (problem.code() == Code::kNotFound) {
    problem = CheckNoRemains(result_.files, directory_);
    if (problem.ok()) return Status(Code::kNotFound, "there is no database in " + directory_);
  }
  Add(FileKind::kManifest, 0, ManifestName(), problem);
  return Status();
}

Inspector::OpenTables Inspector::OpenListed() {
  OpenTables tables;
  const TablePlace place{&fs_, directory_, &options_.storage, cache_, nullptr};
  for (const std::vector<table::TableInfo>& run : result_.manifest.runs) {
    for (const table::TableInfo& info : run) {
      const Result<std::shared_ptr<TableHandle>> table = OpenTable(place, info);
      if (table.ok()) {
        tables.push_back(*table);
      } else {
        Add(FileKind::kTable, info.ssid, TableName(info.ssid), table.status());
      }
    }
  }
  return tables;
}

Inspector::OpenTables Inspector::OpenFound() {
  OpenTables tables;
  for (const uint64_t ssid : result_.files.tables) {
    const std::string path = PathOf(TableName(ssid));
    const auto table = table::Table::Open(fs_, path, ssid, options_.storage, cache_);
    if (table.ok()) {
      tables.push_back(std::make_shared<TableHandle>(*table, path, nullptr));
    } else {
      Add(FileKind::kTable, ssid, TableName(ssid), table.status());
    }
  }
  return tables;
}

void Inspector::CheckTables(const OpenTables& tables) {
  for (const std::shared_ptr<TableHandle>& table : tables) {
    const Status sound = options_.contents ? table->table().Verify() : Status();
    Advance(options_.contents ? table->info().file_bytes : 0);
    if (!sound.ok()) {
      Add(FileKind::kTable, table->info().ssid, TableName(table->info().ssid), sound);
      result_.damaged_tables.push_back(table->info());
      continue;
    }
    result_.tables.push_back(table->info());
    if (!options_.contents || table->info().segments.empty()) continue;
    const Status read = CheckEntries(*table->table().NewIterator(false));
    if (!read.ok()) Add(FileKind::kTable, table->info().ssid, TableName(table->info().ssid), read);
  }
}

// The separated values of all that `entries` has; its own status.
Status Inspector::CheckEntries(table::EntryIterator& entries) {
  for (entries.SeekToFirst(); entries.Valid(); entries.Next()) {
    if (entries.type() != log::RecordType::kValueRef) continue;
    const auto reference = base::LoadLe<log::ValueRef>(entries.value().data());
    const Status sound = values_->Check(reference);
    ++result_.values;
    Advance(log::RecordSize(reference.key_size, reference.value_size));
    SegmentState& segment = segments_[reference.segment_id];
    if (!sound.ok() && segment.damaged++ == 0) segment.first = sound;
  }
  return entries.status();
}

void Inspector::CheckSegments() {
  for (const auto& [id, state] : segments_) {
    const std::string name = ValueSegmentName(id);
    Status problem = state.first;
    const Result<log::SegmentHeader> header = log::ReadSegmentHeader(fs_, PathOf(name));
    if (!header.ok()) {
      problem = header.status();
    } else if (header->kind != log::SegmentKind::kValue || header->id != id) {
      problem = Status(Code::kCorruption, PathOf(name) + ": this is another segment's file");
    }
    if (problem.ok()) continue;
    Add(FileKind::kValueSegment, id, name, problem);
    result_.findings.back().count = state.damaged;
  }
}

void Inspector::CheckLog() {
  for (const StoredLog& log : result_.manifest.log_segments) {
    const std::vector<uint64_t>& there = result_.files.logs;
    if (std::find(there.begin(), there.end(), log.pool_slot) != there.end()) continue;
    Add(FileKind::kLog, log.pool_slot, LogSegmentName(static_cast<int>(log.pool_slot)),
        Status(Code::kNotFound));
  }
  const Result<RecoveredLog> log =
      CopyLog(fs_, directory_, result_.manifest, result_.files.logs, *values_);
  if (!log.ok()) return Add(FileKind::kLog, 0, "log-*.seg", log.status());
  result_.log_records = log->records;
  result_.log_holes = log->holes;
  Status status = CheckLogValues(result_.files, *log, directory_);
  for (size_t i = 0; status.ok() && options_.contents && i < log->handles.size(); ++i) {
    status = CheckEntries(*log->handles[i]->table().NewView(kMaxLsn)->NewIterator(true));
  }
  if (!status.ok()) Add(FileKind::kLog, 0, "log-*.seg", status);
}

// What is not there any more is only missed if the manifest still names it.
void Inspector::ForgetVanished() {
  bool same = true;
  if (result_.has_manifest) {
    const Result<bool> stored = StillStored(fs_, directory_, result_.manifest);
    same = !stored.ok() || *stored;
  }
  if (!same) std::erase_if(result_.findings, Vanished);
  for (Finding& finding : result_.findings) {
    if (Vanished(finding)) finding.status = MissingFile(finding.path, NameOf(finding.kind));
  }
}

}  // namespace

Result<Inspection> Inspect(io::FileSystem& fs, const std::string& directory,
                           const InspectOptions& options) {
  return Inspector(fs, directory, options).Run();
}

}  // namespace quire::lsm
