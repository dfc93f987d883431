#include "lsm/version/recovery.h"

#include <algorithm>
#include <limits>
#include <new>
#include <set>
#include <utility>

#include "base/text/coding.h"

namespace quire::lsm {
namespace {

bool SameBoot(const log::SegmentHeader& header, uint64_t boot_id) {
  return header.boot_id == boot_id;
}

log::ValueRef ReferenceOf(const char* record) {
  return base::LoadLe<log::ValueRef>(log::ValueOf(record).data());
}

// Ends a replay early; never leaves this file.
Status StopReplay() { return Status(Code::kNotFound); }

}  // namespace

void ByteRange::Add(const log::ValueRef& ref) {
  const uint64_t record_end = ref.offset + log::RecordSize(ref.key_size, ref.value_size);
  begin = begin == end ? ref.offset : std::min(begin, ref.offset);
  end = std::max(end, record_end);
}

Status SyncFoundFile(io::FileSystem& fs, const std::string& path, const ByteRange& in_doubt) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> file,
                         fs.Open(path, io::FileOpenMode::kReadWrite));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (in_doubt.begin < in_doubt.end && size != 0) {
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::MappedFile> map,
                           fs.Map(path, size, io::MapMode::kReadWrite));
    QUIRE_RETURN_IF_ERROR(map->StoreAgain(0, log::kSegmentHeaderBytes));
    QUIRE_RETURN_IF_ERROR(map->StoreAgain(in_doubt.begin, in_doubt.end - in_doubt.begin));
  }
  return file->Sync();
}

Status MissingFile(const std::string& path, const char* what) {
  return Status(Code::kCorruption, path + " is missing, though the manifest lists it: " + what +
                                       " is lost; restore the file from a copy or checkpoint");
}

Result<DirectoryContents> ReadDirectory(io::FileSystem& fs, const std::string& directory) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> files, fs.List(directory));
  DirectoryContents contents;
  for (const io::FileInfo& file : files) {
    uint64_t number = 0;
    if (file.is_directory) continue;
    if (file.name == ManifestName()) contents.has_manifest = true;
    if (file.name == ManifestName() + ".tmp") {
      contents.leftovers.push_back(directory + "/" + file.name);
    }
    if (ParseNumberedName(file.name, "t-", ".sst", &number)) contents.tables.push_back(number);
    if (ParseNumberedName(file.name, "log-", ".seg", &number)) contents.logs.push_back(number);
    if (ParseNumberedName(file.name, "val-", ".seg", &number)) {
      contents.value_segments.push_back({number, file.size});
    }
  }
  std::sort(contents.logs.begin(), contents.logs.end());
  std::sort(contents.value_segments.begin(), contents.value_segments.end(),
            [](const StoredSegment& a, const StoredSegment& b) { return a.id < b.id; });
  return contents;
}

Status CheckNoRemains(const DirectoryContents& contents, const std::string& directory) {
  if (contents.tables.empty() && contents.value_segments.empty() && contents.logs.empty()) {
    return Status();
  }
  return Status(Code::kCorruption,
                directory + "/" + ManifestName() +
                    " is missing, though there are files of a database beside it; restore it "
                    "from a copy or checkpoint, or remove the database");
}

Status CheckListed(const DirectoryContents& contents, const Manifest& manifest,
                   const std::string& directory) {
  const std::set<uint64_t> tables(contents.tables.begin(), contents.tables.end());
  std::set<uint64_t> segments;
  for (const StoredSegment& segment : contents.value_segments) segments.insert(segment.id);
  for (const std::vector<table::TableInfo>& run : manifest.runs) {
    for (const table::TableInfo& table : run) {
      if (!tables.contains(table.ssid)) {
        return MissingFile(directory + "/" + TableName(table.ssid), "a table");
      }
      for (const table::SegmentUse& use : table.segments) {
        if (segments.contains(use.segment_id)) continue;
        return MissingFile(directory + "/" + ValueSegmentName(use.segment_id), "a value segment");
      }
    }
  }
  const std::set<uint64_t> logs(contents.logs.begin(), contents.logs.end());
  for (const StoredLog& log : manifest.log_segments) {
    if (!logs.contains(log.pool_slot)) {
      return MissingFile(directory + "/" + LogSegmentName(static_cast<int>(log.pool_slot)),
                         "a log segment");
    }
  }
  return Status();
}

Status CheckLogValues(const DirectoryContents& contents, const RecoveredLog& log,
                      const std::string& directory) {
  std::set<uint64_t> there;
  for (const StoredSegment& segment : contents.value_segments) there.insert(segment.id);
  for (const auto& [id, in_doubt] : log.value_segments) {
    if (there.contains(id)) continue;
    return Status(Code::kCorruption,
                  directory + "/" + ValueSegmentName(id) +
                      " is missing, though records of the log have their values in it: restore "
                      "the file from a copy; `quire repair` keeps the other records");
  }
  return Status();
}

std::vector<ValueSegmentInfo> LiveValueSegments(const DirectoryContents& contents,
                                                const Manifest& manifest) {
  std::set<uint64_t> listed;
  for (const StoredSegment& segment : manifest.value_segments) listed.insert(segment.id);
  std::vector<ValueSegmentInfo> live;
  for (const StoredSegment& segment : contents.value_segments) {
    if (segment.id < manifest.value_segment_floor && !listed.contains(segment.id)) continue;
    ValueSegmentInfo info;
    info.id = segment.id;
    info.file_bytes = segment.file_bytes;
    info.record_bytes = segment.file_bytes;
    info.sealed = true;
    live.push_back(info);
  }
  return live;
}

std::vector<std::string> Orphans(const DirectoryContents& contents, const Manifest& manifest,
                                 const std::string& directory) {
  std::vector<std::string> orphans = contents.leftovers;
  std::set<uint64_t> listed;
  for (const std::vector<table::TableInfo>& run : manifest.runs) {
    for (const table::TableInfo& table : run) listed.insert(table.ssid);
  }
  for (const uint64_t ssid : contents.tables) {
    if (!listed.contains(ssid)) orphans.push_back(directory + "/" + TableName(ssid));
  }
  std::set<uint64_t> live;
  for (const ValueSegmentInfo& info : LiveValueSegments(contents, manifest)) live.insert(info.id);
  for (const StoredSegment& segment : contents.value_segments) {
    if (!live.contains(segment.id)) {
      orphans.push_back(directory + "/" + ValueSegmentName(segment.id));
    }
  }
  return orphans;
}

LogRecovery::LogRecovery(io::FileSystem& fs, std::string directory, const Manifest& manifest,
                         RecoveryHelp help)
    : fs_(fs),
      directory_(std::move(directory)),
      manifest_(manifest),
      help_(std::move(help)),
      boot_id_(fs.BootId()) {
  log_.end_lsn = chain_end_lsn_ = manifest.flushed_lsn;
  log_.lsn_max = manifest.flushed_lsn;
}

Result<RecoveredLog> LogRecovery::Run(const std::vector<uint64_t>& pool_slots) {
  QUIRE_RETURN_IF_ERROR(ReadHeaders(pool_slots));
  chained_.assign(files_.size(), false);
  while (const LogFile* next = Successor()) {
    chained_[static_cast<size_t>(next - files_.data())] = true;
    QUIRE_RETURN_IF_ERROR(Take(*next));
  }
  for (size_t i = 0; i < files_.size(); ++i) {
    if (!chained_[i]) QUIRE_RETURN_IF_ERROR(CheckUnchained(files_[i]));
  }
  return std::move(log_);
}

Status LogRecovery::CheckHeaders(const std::vector<uint64_t>& pool_slots) {
  QUIRE_RETURN_IF_ERROR(ReadHeaders(pool_slots));
  files_.clear();
  log_.unfinished.clear();
  return Status();
}

bool LogRecovery::Listed(uint64_t pool_slot) const {
  return std::any_of(manifest_.log_segments.begin(), manifest_.log_segments.end(),
                     [&](const StoredLog& log) { return log.pool_slot == pool_slot; });
}

Status LogRecovery::ReadHeaders(const std::vector<uint64_t>& pool_slots) {
  for (const uint64_t pool_slot : pool_slots) {
    const std::string path =
        directory_ + "/" + LogSegmentName(static_cast<int>(pool_slot));
    const Result<log::SegmentHeader> header = log::ReadSegmentHeader(fs_, path);
    if (header.ok()) {
      QUIRE_RETURN_IF_ERROR(TakeHeader(pool_slot, path, *header));
      continue;
    }
    // If the manifest lists a segment, its header was durable. Any other may be one whose use had
    // just begun when the power went, and with it the header.
    const bool unfinished = !Listed(pool_slot) && (header.status().code() == Code::kNotFound ||
                                                   (header.status().code() == Code::kCorruption &&
                                                    manifest_.boot_id != boot_id_));
    if (!unfinished) {
      if (header.status().code() != Code::kNotFound) return header.status();
      return Status(Code::kCorruption, path + " has no header, though the manifest lists it");
    }
    log_.unfinished.push_back(path);
  }
  return Status();
}

Status LogRecovery::TakeHeader(uint64_t pool_slot, const std::string& path,
                               const log::SegmentHeader& header) {
  if (header.kind != log::SegmentKind::kLog || header.id != pool_slot) {
    return Status(Code::kCorruption, path + ": this is another segment's file (number " +
                                         std::to_string(header.id) + "); restore the right one");
  }
  for (const StoredLog& log : manifest_.log_segments) {
    if (log.pool_slot != pool_slot || log.generation == header.generation) continue;
    return Status(Code::kCorruption,
                  path + " is not the segment that the manifest lists; restore the right one");
  }
  if (header.base_lsn > std::numeric_limits<uint64_t>::max() - header.capacity) {
    return Status(Code::kCorruption, path + ": its base LSN cannot be");
  }
  log_.lsn_max = std::max(log_.lsn_max, header.base_lsn + header.capacity);
  const bool activated = header.previous_end_lsn != 0;
  if (activated && header.base_lsn >= manifest_.flushed_lsn) files_.push_back({path, header});
  return Status();
}

// Returns the segment that continues where the chain ends. If several do, all but the last were
// found empty by an earlier recovery, and got new successors.
const LogFile* LogRecovery::Successor() const {
  const LogFile* successor = nullptr;
  for (size_t i = 0; i < files_.size(); ++i) {
    if (chained_[i] || files_[i].header.previous_end_lsn != chain_end_lsn_) continue;
    if (successor == nullptr || files_[i].header.base_lsn > successor->header.base_lsn) {
      successor = &files_[i];
    }
  }
  return successor;
}

Result<std::string> LogRecovery::HeaderPage(const LogFile& file) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> segment,
                         fs_.Open(file.path, io::FileOpenMode::kRead));
  std::string page(log::kSegmentHeaderBytes, '\0');
  QUIRE_RETURN_IF_ERROR(segment->ReadAt(0, page.size(), page.data()));
  return page;
}

// Returns whether a closed database left this segment.
Result<bool> LogRecovery::ClosedEmpty(const LogFile& file) {
  if (!SameBoot(file.header, boot_id_)) return false;
  QUIRE_ASSIGN_OR_RETURN(const std::string page, HeaderPage(file));
  const uint64_t generation = file.header.generation;
  return log::ClosedMark(page.data(), generation) == log::kSegmentHeaderBytes &&
         log::CompleteMark(page.data(), generation) == log::kSegmentHeaderBytes &&
         log::DurableMark(page.data(), generation) <= log::kSegmentHeaderBytes;
}

// A batch that meets another one in an empty MemTable may close it before anything is in it: then
// the next segment continues at its very beginning. The log itself ends where it did until a
// segment behind it has records, because the file of an empty segment may be used again at once.
void LogRecovery::PassEmpty(const LogFile& file) {
  const uint64_t end_lsn = file.header.base_lsn + log::kSegmentHeaderBytes;
  const bool goes_on = std::any_of(files_.begin(), files_.end(), [&](const LogFile& next) {
    return next.header.previous_generation == file.header.generation &&
           next.header.previous_end_lsn == end_lsn;
  });
  if (goes_on) chain_end_lsn_ = end_lsn;
}

Status LogRecovery::Take(const LogFile& file) {
  if (help_.copies) {
    QUIRE_ASSIGN_OR_RETURN(const bool empty, ClosedEmpty(file));
    if (empty) {
      PassEmpty(file);
      return Status();
    }
  }
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<PooledMemTable> handle, help_.adopt(file.path));
  if (handle->generation() != file.header.generation) {
    return Status(Code::kBusy, file.path + " changes while it is read: another program uses it");
  }
  QUIRE_ASSIGN_OR_RETURN(const log::ReplayReport report, Replay(*handle, file));
  log_.holes += report.holes;
  log_.torn_bytes += report.torn_bytes;
  if (report.records == 0) {
    // If it is of the same boot, it contained nothing.
    if (!SameBoot(file.header, boot_id_)) log_.given_up.push_back(file.header.id);
    PassEmpty(file);
    return Status();
  }
  handle->FinishAdoption(report.end);
  const bool behind_empty = chain_end_lsn_ != log_.end_lsn;
  log_.end_lsn = chain_end_lsn_ = file.header.base_lsn + report.end;
  log_.end_generation = file.header.generation;
  log_.records += report.records;
  if (report.holes != 0 || !SameBoot(file.header, boot_id_) || handle->pool_slot() < 0 ||
      behind_empty) {
    log_.must_flush = true;
  }
  log_.handles.push_back(std::move(handle));
  return Status();
}

Result<log::ReplayReport> LogRecovery::Replay(PooledMemTable& handle, const LogFile& file) {
  uint64_t end = std::numeric_limits<uint64_t>::max();
  if (!SameBoot(file.header, boot_id_)) {
    QUIRE_ASSIGN_OR_RETURN(end, EndOfWholeValues(handle, file));
  }
  const uint64_t durable = log::DurableMark(handle.table().data(), file.header.generation);
  log::ReplayReport taken;
  Result<log::ReplayReport> report =
      log::Replay(handle.Bytes(), file.header, boot_id_, file.path,
                  [&](uint64_t offset, const char* record) {
                    if (offset >= end) return StopReplay();
                    const log::RecordType type = log::HeaderAt(record)->type;
                    if (type != log::RecordType::kBatchBegin) ++taken.records;
                    if (type == log::RecordType::kValueRef) {
                      NoteValue(record, offset < durable);
                    }
                    taken.end = offset + log::SizeOf(record);
                    return handle.table().Adopt(offset);
                  },
                  CompleteEnd(file));
  if (report.ok()) return report;
  if (report.status().code() != Code::kNotFound) return report.status().WithContext(file.path);
  taken.holes = 1;
  const uint64_t known_end = std::max(
      CompleteEnd(file), log::CompleteMark(handle.table().data(), file.header.generation));
  taken.torn_bytes = known_end > taken.end ? known_end - taken.end : 0;
  return taken;
}

// The value of a record that is durable was synced before it.
void LogRecovery::NoteValue(const char* record, bool durable) {
  const log::ValueRef ref = ReferenceOf(record);
  ByteRange& range = log_.value_segments[ref.segment_id];
  if (!durable) range.Add(ref);
}

// The segment that goes on after this one was begun when all records here were finished. 0: none
// was.
uint64_t LogRecovery::CompleteEnd(const LogFile& file) const {
  const uint64_t base_lsn = file.header.base_lsn;
  for (const LogFile& next : files_) {
    if (next.header.previous_generation != file.header.generation) continue;
    const uint64_t end_lsn = next.header.previous_end_lsn;
    if (end_lsn > base_lsn) return end_lsn - base_lsn;
  }
  return 0;
}

// Returns, after a power loss, the offset of the first record, or batch with a record, whose
// separated value did not reach the disk. This is no record that was promised to be durable: values
// are synced before the log.
Result<uint64_t> LogRecovery::EndOfWholeValues(PooledMemTable& handle, const LogFile& file) {
  const uint64_t durable = log::DurableMark(handle.table().data(), file.header.generation);
  uint64_t end = std::numeric_limits<uint64_t>::max();
  const auto look = [&](uint64_t offset, const char* record) -> Status {
    if (offset < durable) return Status();
    QUIRE_ASSIGN_OR_RETURN(const bool whole, ValueIsWhole(record));
    if (whole) return Status();
    end = offset - uint64_t{log::BatchDistance(*log::HeaderAt(record))} * 8;
    return StopReplay();
  };
  const Result<log::ReplayReport> report =
      log::Replay(handle.Bytes(), file.header, boot_id_, file.path, look, CompleteEnd(file));
  if (!report.ok() && report.status().code() != Code::kNotFound) return report.status();
  return end;
}

// A value that cannot be read for another reason than what is stored was not lost with the power:
// a log that ended before it would lose what is whole.
Result<bool> LogRecovery::ValueIsWhole(const char* record) {
  if (log::HeaderAt(record)->type != log::RecordType::kValueRef) return true;
  const log::ValueRef reference = ReferenceOf(record);
  const Status checked = help_.check_value(reference);
  if (checked.ok()) return HasHeader(reference.segment_id);
  if (ValueIsLost(checked)) return false;
  return checked;
}

// A power loss may take a value segment's header and leave a value. A table that referred to it
// could be read, but neither verified nor copied into a checkpoint.
Result<bool> LogRecovery::HasHeader(uint64_t value_segment) {
  if (headed_.contains(value_segment)) return true;
  const Result<log::SegmentHeader> header =
      log::ReadSegmentHeader(fs_, directory_ + "/" + ValueSegmentName(value_segment));
  if (!header.ok() && !ValueIsLost(header.status())) return header.status();
  if (!header.ok() || header->kind != log::SegmentKind::kValue || header->id != value_segment) {
    return false;
  }
  headed_.insert(value_segment);
  return true;
}

// A segment that the chain does not reach. After a power loss one that follows a torn segment is
// given up with the tail; anything else means that a segment is missing.
Status LogRecovery::CheckUnchained(const LogFile& file) {
  QUIRE_ASSIGN_OR_RETURN(const std::string page, HeaderPage(file));
  const uint64_t generation = file.header.generation;
  const bool promised = log::DurableMark(page.data(), generation) > log::kSegmentHeaderBytes ||
                        (SameBoot(file.header, boot_id_) &&
                         log::CompleteMark(page.data(), generation) > log::kSegmentHeaderBytes);
  if (!promised) {
    ++log_.holes;
    log_.torn_bytes += log::CompleteMark(page.data(), generation) - log::kSegmentHeaderBytes;
    log_.given_up.push_back(file.header.id);
    return Status();
  }
  return Status(Code::kCorruption,
                file.path + " goes on at LSN " + std::to_string(file.header.previous_end_lsn) +
                    ", but the log before it ends at " + std::to_string(log_.end_lsn) +
                    ": a log segment is missing or damaged; restore it from a copy or checkpoint");
}

Result<RecoveredLog> CopyLog(io::FileSystem& fs, const std::string& directory,
                             const Manifest& manifest, const std::vector<uint64_t>& pool_slots,
                             const ValueReader& values) {
  RecoveryHelp help;
  help.copies = true;
  help.adopt = [&fs](const std::string& path) { return PooledMemTable::Copy(fs, path); };
  help.check_value = [&values](const log::ValueRef& reference) { return values.Check(reference); };
  try {
    return LogRecovery(fs, directory, manifest, std::move(help)).Run(pool_slots);
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, "no memory for the log in " + directory);
  }
}

}  // namespace quire::lsm
