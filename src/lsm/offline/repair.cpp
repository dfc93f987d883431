#include "lsm/offline/repair.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/text/printable.h"
#include "io/files/machine.h"
#include "io/files/posix_error.h"
#include "log/segment.h"
#include "lsm/offline/inspect.h"
#include "lsm/offline/salvage.h"

namespace quire::lsm {
namespace {

using Tables = std::vector<table::TableInfo>;

constexpr uint64_t kCopiedPieceBytes = 1 << 20;

bool IsZero(Slice bytes) {
  return bytes.empty() ||
         (bytes[0] == '\0' && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// Copies a file of any size. Unused parts stay holes.
Status CopyContents(const io::File& from, io::File& to) {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, from.Size());
  QUIRE_RETURN_IF_ERROR(to.Truncate(0));
  std::string piece;
  for (uint64_t at = 0; at < size; at += piece.size()) {
    piece.resize(std::min(size - at, kCopiedPieceBytes));
    QUIRE_RETURN_IF_ERROR(from.ReadAt(at, piece.size(), piece.data()));
    if (!IsZero(piece)) QUIRE_RETURN_IF_ERROR(to.WriteAt(at, piece));
  }
  QUIRE_RETURN_IF_ERROR(to.Truncate(size));
  return to.Sync();
}

bool IsAmong(uint64_t number, const std::vector<uint64_t>& numbers) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

class Repairer {
 public:
  Repairer(io::FileSystem& fs, const std::string& directory, const RepairOptions& options)
      : fs_(fs),
        directory_(directory),
        options_(options),
        values_(ValueReader::Create(fs, directory)) {}

  Result<RepairReport> Run();

 private:
  Status Judge();
  void ListWhatIsThere();
  void SetTablesAside();
  void LoseAllOf(const table::TableInfo& table);
  Status RewriteTables();
  Status Rewrite(const table::TableInfo& info, Tables* replacement);
  Status SalvageLogs();
  bool MayHoldNews(const log::SegmentHeader& segment) const;
  Status SalvageSegment(const LogRemains::Segment& segment);
  void InsertRun(Tables run, uint64_t newer_from);
  Status Carry();
  Status KeepTableInLost(const std::string& name);
  Status CopyToLost(const std::string& name);
  std::unique_ptr<RunWriter> NewWriter();
  bool Has(FileKind kind) const;
  bool RefersToGone(const table::TableInfo& table) const;
  void DropEmptyRuns();
  std::string LostPathOf(const std::string& name) const {
    return options_.lost_directory + "/" + options_.lost_prefix + name;
  }
  std::string PathOf(const std::string& name) const { return directory_ + "/" + name; }
  void Step(std::string text) { report_.steps.push_back(std::move(text)); }
  void Loss(std::string text) { report_.losses.push_back(std::move(text)); }

  io::FileSystem& fs_;
  const std::string directory_;
  const RepairOptions& options_;
  const std::unique_ptr<ValueReader> values_;
  Inspection found_;
  Manifest manifest_;                     // the one to be
  std::set<uint64_t> gone_;               // value segments that tables refer to
  std::set<uint64_t> damaged_;            // tables that can be opened
  std::vector<std::string> lost_tables_;  // names of files to be set aside
  std::vector<std::string> lost_logs_;
  bool sound_tables_ = true;  // all of those that are there, or should be
  RepairReport report_;
};

bool Repairer::Has(FileKind kind) const {
  return std::any_of(found_.findings.begin(), found_.findings.end(),
                     [kind](const Finding& finding) { return finding.kind == kind; });
}

Result<RepairReport> Repairer::Run() {
  InspectOptions inspect;
  inspect.storage = options_.storage;
  inspect.has_lock = !options_.dry_run;
  QUIRE_ASSIGN_OR_RETURN(found_, Inspect(fs_, directory_, inspect));
  QUIRE_RETURN_IF_ERROR(Judge());
  if (!report_.needed) return report_;
  manifest_ = found_.manifest;
  if (!found_.has_manifest) ListWhatIsThere();
  // Also above the tables that a killed flush, or an interrupted repair, left.
  for (const uint64_t ssid : found_.files.tables) {
    manifest_.next_ssid = std::max(manifest_.next_ssid, ssid + 1);
  }
  SetTablesAside();
  if (!found_.has_manifest || Has(FileKind::kLog)) QUIRE_RETURN_IF_ERROR(SalvageLogs());
  QUIRE_RETURN_IF_ERROR(RewriteTables());
  if (!report_.losses.empty()) {
    Loss("Keys of what is lost may show an older value, or be absent.");
  }
  if (!options_.dry_run) QUIRE_RETURN_IF_ERROR(Carry());
  return report_;
}

// Finds what keeps the database from being opened. Damage that only some gets would meet is named,
// and left.
Status Repairer::Judge() {
  std::set<uint64_t> there;
  for (const StoredSegment& segment : found_.files.value_segments) there.insert(segment.id);
  for (const Finding& finding : found_.findings) {
    if (finding.status.code() != Code::kCorruption) return finding.status;
    if (finding.kind == FileKind::kValueSegment && there.contains(finding.number)) {
      Loss(finding.count == 0
               ? finding.status.message() +
                     "; its values can be read, but no checkpoint can be made while it is needed"
               : finding.path + ": " + std::to_string(finding.count) +
                     " values are damaged; gets of their keys go on to say so");
      continue;
    }
    if (finding.kind == FileKind::kValueSegment) gone_.insert(finding.number);
    report_.needed = true;
  }
  return Status();
}

// A manifest of all tables that can be opened. Newest first by their newest entry: a merge has at
// least the newest entry of what it was made from, and of two made from the same the later one
// counts.
void Repairer::ListWhatIsThere() {
  manifest_.store_id = io::RandomU64();
  manifest_.options = options_.storage;
  manifest_.boot_id = fs_.BootId();
  Tables tables = found_.tables;
  tables.insert(tables.end(), found_.damaged_tables.begin(), found_.damaged_tables.end());
  std::sort(tables.begin(), tables.end(), [](const auto& a, const auto& b) {
    return std::pair(a.max_lsn, a.ssid) > std::pair(b.max_lsn, b.ssid);
  });
  manifest_.flushed_lsn = log::kSegmentHeaderBytes;
  for (const table::TableInfo& table : tables) {
    manifest_.flushed_lsn = std::max(manifest_.flushed_lsn, table.max_lsn + 1);
    manifest_.runs.push_back({table});
  }
  for (const StoredSegment& segment : found_.files.value_segments) {
    manifest_.value_segments.push_back(segment);
    manifest_.next_value_segment_id = segment.id + 1;
  }
  manifest_.value_segment_floor = manifest_.next_value_segment_id;
  Step("make a new " + PathOf(ManifestName()) + " of " + std::to_string(tables.size()) +
       " tables that can be opened");
  Loss("The set of tables is guessed from what is there: deleted keys may be back.");
}

// Sets aside the tables that cannot be opened; of the other damaged ones, the sound entries are
// kept (RewriteTables).
void Repairer::SetTablesAside() {
  for (const table::TableInfo& table : found_.damaged_tables) damaged_.insert(table.ssid);
  std::set<uint64_t> unusable;
  for (const Finding& finding : found_.findings) {
    if (finding.kind != FileKind::kTable) continue;
    sound_tables_ = false;
    if (damaged_.contains(finding.number) || unusable.contains(finding.number)) continue;
    unusable.insert(finding.number);
    Loss(finding.status.message());
    if (!IsAmong(finding.number, found_.files.tables)) continue;
    Step("set aside " + finding.path);
    lost_tables_.push_back(TableName(finding.number));
  }
  for (Tables& run : manifest_.runs) {
    for (const table::TableInfo& table : run) {
      if (unusable.contains(table.ssid)) LoseAllOf(table);
    }
    std::erase_if(run, [&](const auto& table) { return unusable.contains(table.ssid); });
  }
  DropEmptyRuns();
}

void Repairer::LoseAllOf(const table::TableInfo& table) {
  Loss(TableName(table.ssid) + " had " + std::to_string(table.entry_count) + " entries from " +
       base::Printable(table.smallest_key) + " to " + base::Printable(table.largest_key));
}

void Repairer::DropEmptyRuns() {
  std::erase_if(manifest_.runs, [](const Tables& run) { return run.empty(); });
}

// Returns whether a log segment may contain records that are in no table. Without a manifest the
// newest LSN in a table shows how far flushes got, but not whether the last of them was finished;
// and if tables are damaged, a segment that was not used again since has their sound records.
bool Repairer::MayHoldNews(const log::SegmentHeader& segment) const {
  if (found_.has_manifest) return segment.base_lsn >= manifest_.flushed_lsn;
  return !sound_tables_ || segment.base_lsn + segment.capacity > manifest_.flushed_lsn;
}

// Each log segment becomes a run. Those with damage are set aside.
Status Repairer::SalvageLogs() {
  for (const Finding& finding : found_.findings) {
    if (finding.kind == FileKind::kLog) Loss(finding.status.message());
  }
  QUIRE_ASSIGN_OR_RETURN(
      const LogRemains remains,
      FindLogRemains(fs_, directory_, found_.files.logs,
                     [this](const log::SegmentHeader& header) { return MayHoldNews(header); }));
  for (const LogRemains::Segment& segment : remains.segments) {
    const size_t losses = report_.losses.size();
    if (segment.status.ok()) {
      QUIRE_RETURN_IF_ERROR(SalvageSegment(segment));
    } else {
      Loss(segment.status.message());
    }
    if (report_.losses.size() == losses) continue;
    Step("set aside " + segment.path);
    lost_logs_.push_back(LogSegmentName(static_cast<int>(segment.pool_slot)));
  }
  manifest_.epoch = std::max(manifest_.epoch, remains.owner_epoch);
  manifest_.flushed_lsn = (std::max(manifest_.flushed_lsn, remains.lsn_end) + 7) / 8 * 8;
  manifest_.log_segments.clear();
  return Status();
}

Status Repairer::SalvageSegment(const LogRemains::Segment& segment) {
  QUIRE_ASSIGN_OR_RETURN(const SalvagedLog salvaged, SalvageLog(fs_, segment.path, *values_));
  if (salvaged.holes != 0) {
    Loss(segment.path + ": " + std::to_string(salvaged.hole_bytes) + " bytes at " +
         std::to_string(salvaged.holes) + " places are damaged, or were never finished");
  }
  if (salvaged.lost.count != 0) {
    Loss(segment.path + ": " + Describe(salvaged.lost) + " lie in damaged value segments");
  }
  if (salvaged.records == 0) return Status();
  Step("write " + std::to_string(salvaged.records) + " records of " + segment.path +
       " into a table");
  if (options_.dry_run) return Status();
  // The log may be gone before the values to which it refers would be synced otherwise.
  for (const auto& [id, in_doubt] : salvaged.value_segments) {
    QUIRE_RETURN_IF_ERROR(SyncFoundFile(fs_, PathOf(ValueSegmentName(id)), in_doubt));
  }
  const std::unique_ptr<RunWriter> writer = NewWriter();
  QUIRE_RETURN_IF_ERROR(WriteAll(*salvaged.memory, *writer));
  QUIRE_ASSIGN_OR_RETURN(Tables run, writer->Finish());
  QUIRE_RETURN_IF_ERROR(fs_.SyncDirectory(directory_));
  const bool whole = salvaged.holes == 0 && salvaged.lost.count == 0;
  InsertRun(std::move(run), whole ? segment.end_lsn : segment.base_lsn);
  return Status();
}

// Inserts the run in the order of writes: in front of the runs whose entries are all older than
// `newer_from`. If the log segment is whole, it goes in front of tables that were made of the same
// segment, because it contains all their versions; else behind them, because they may have a newer
// version of a key.
void Repairer::InsertRun(Tables run, uint64_t newer_from) {
  if (run.empty()) return;
  const auto older = [newer_from](const Tables& other) {
    return std::all_of(other.begin(), other.end(),
                       [newer_from](const auto& table) { return table.max_lsn < newer_from; });
  };
  const auto place = std::find_if(manifest_.runs.begin(), manifest_.runs.end(), older);
  manifest_.runs.insert(place, std::move(run));
}

std::unique_ptr<RunWriter> Repairer::NewWriter() {
  return std::make_unique<RunWriter>(
      fs_, directory_, options_.storage, AlwaysHeld, [this] { return manifest_.next_ssid++; },
      SegmentTracker::Protection::NotNeeded());
}

bool Repairer::RefersToGone(const table::TableInfo& table) const {
  return std::any_of(table.segments.begin(), table.segments.end(),
                     [&](const auto& use) { return gone_.contains(use.segment_id); });
}

// Opening demands that every value segment which a table refers to is there; gets, and merges, that
// every block is sound.
Status Repairer::RewriteTables() {
  for (Tables& run : manifest_.runs) {
    Tables kept;
    for (const table::TableInfo& info : run) {
      if (!damaged_.contains(info.ssid) && !RefersToGone(info)) {
        kept.push_back(info);
      } else {
        QUIRE_RETURN_IF_ERROR(Rewrite(info, &kept));
      }
    }
    run = std::move(kept);
  }
  DropEmptyRuns();
  std::erase_if(manifest_.value_segments,
                [&](const StoredSegment& segment) { return gone_.contains(segment.id); });
  return Status();
}

Status Repairer::Rewrite(const table::TableInfo& info, Tables* replacement) {
  const std::string name = TableName(info.ssid);
  const std::unique_ptr<RunWriter> writer = NewWriter();
  const Result<SalvagedTable> salvaged = SalvageTable(
      fs_, PathOf(name), info, options_.storage, gone_, options_.dry_run ? nullptr : writer.get());
  if (!salvaged.ok() && salvaged.status().code() != Code::kCorruption) return salvaged.status();
  lost_tables_.push_back(name);
  if (!salvaged.ok()) {
    Step("set aside " + PathOf(name));
    Loss(salvaged.status().message());
    LoseAllOf(info);
    return Status();
  }
  Step("rewrite the undamaged part of " + PathOf(name) + ", and set the file aside");
  for (std::string& loss : LossesOf(PathOf(name), info, *salvaged)) Loss(std::move(loss));
  if (options_.dry_run) return Status();
  QUIRE_ASSIGN_OR_RETURN(const Tables tables, writer->Finish());
  QUIRE_RETURN_IF_ERROR(fs_.SyncDirectory(directory_));
  replacement->insert(replacement->end(), tables.begin(), tables.end());
  return Status();
}

// New tables are there. What is set aside lies in the lost directory before the new manifest
// counts, and goes from here after that: whatever comes in between, the next opener or the next
// repair finds what it needs, and takes nothing away for good.
Status Repairer::Carry() {
  QUIRE_RETURN_IF_ERROR(fs_.SyncDirectory(directory_));
  const bool replaces = !found_.has_manifest && found_.files.has_manifest;
  if (!lost_tables_.empty() || !lost_logs_.empty() || replaces) {
    QUIRE_RETURN_IF_ERROR(io::MakeDurableDirectory(fs_, options_.lost_directory));
    if (replaces) QUIRE_RETURN_IF_ERROR(CopyToLost(ManifestName()));
    for (const std::string& name : lost_tables_) QUIRE_RETURN_IF_ERROR(KeepTableInLost(name));
    for (const std::string& name : lost_logs_) QUIRE_RETURN_IF_ERROR(CopyToLost(name));
    QUIRE_RETURN_IF_ERROR(fs_.SyncDirectory(options_.lost_directory));
  }
  ++manifest_.epoch;
  ++manifest_.edition;
  QUIRE_RETURN_IF_ERROR(CreateManifest(fs_, directory_, manifest_));
  for (const std::string& name : lost_tables_) QUIRE_RETURN_IF_ERROR(fs_.Unlink(PathOf(name)));
  for (const std::string& name : lost_logs_) QUIRE_RETURN_IF_ERROR(fs_.Unlink(PathOf(name)));
  return fs_.SyncDirectory(directory_);
}

// A second name: tables are never written to.
Status Repairer::KeepTableInLost(const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const std::string lost, FreePath(fs_, LostPathOf(name)));
  const Status linked = fs_.Link(PathOf(name), lost);
  return linked.code() == Code::kUnsupported ? CopyToLost(name) : linked;
}

// A file of its own: the next opener may use a log segment again.
Status Repairer::CopyToLost(const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> source,
                         fs_.Open(PathOf(name), io::FileOpenMode::kRead));
  QUIRE_ASSIGN_OR_RETURN(const std::string lost, FreePath(fs_, LostPathOf(name)));
  const std::string unfinished = lost + ".tmp";
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> file,
                         fs_.Open(unfinished, io::FileOpenMode::kReadWriteCreate));
  Status status = CopyContents(*source, *file);
  if (status.ok()) status = fs_.Rename(unfinished, lost);
  // What is reported is why there is no copy.
  if (!status.ok()) static_cast<void>(fs_.Unlink(unfinished));
  return status;
}

}  // namespace

Result<std::string> FreePath(io::FileSystem& fs, const std::string& path) {
  std::string free = path;
  for (uint64_t number = 2;; ++number) {
    QUIRE_ASSIGN_OR_RETURN(const bool taken, fs.Exists(free));
    if (!taken) return free;
    free = path + "." + std::to_string(number);
  }
}

Result<RepairReport> Repair(io::FileSystem& fs, const std::string& directory,
                            const RepairOptions& options) {
  std::unique_ptr<io::FileLock> lock;
  QUIRE_ASSIGN_OR_RETURN(const bool exists, fs.Exists(directory));
  if (!exists) return Status(Code::kNotFound, "there is no database in " + directory);
  if (options.dry_run) {
    QUIRE_ASSIGN_OR_RETURN(const std::string holder, fs.LockHolder(LockPath(directory)));
    if (!holder.empty()) {
      return Status(Code::kBusy, directory + " is open in " + io::HolderText(holder) +
                                     "; wait for it to end, or end it");
    }
  } else {
    QUIRE_ASSIGN_OR_RETURN(lock, fs.Lock(LockPath(directory), options.holder));
  }
  return Repairer(fs, directory, options).Run();
}

}  // namespace quire::lsm
