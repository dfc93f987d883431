#include "lsm/offline/part_verifier.h"

#include <algorithm>
#include <utility>

#include "base/text/coding.h"
#include "log/record.h"
#include "log/segment.h"
#include "lsm/version/manifest.h"
#include "lsm/vlog/value_log.h"
#include "table/table.h"

namespace quire::lsm {
namespace {

// Blocks are read once: the index and filter of one table.
constexpr uint64_t kCacheBytes = 4 << 20;
constexpr uint64_t kVerifiedPieceBytes = 1 << 20;
// One call of FinishSome: entries of a table.
constexpr int kEntriesAtOnce = 1000;

// Walks the records of a value segment file, with a window onto it.
class SegmentWalk {
 public:
  SegmentWalk(const io::File& file, const log::SegmentHeader& header, uint64_t file_bytes)
      : file_(file), header_(header), end_(file_bytes) {}

  // Whether there is nothing but sound records, up to the end.
  Result<bool> AllSound() {
    for (uint64_t at = log::kSegmentHeaderBytes; at < end_;) {
      if (end_ - at < sizeof(log::RecordHeader)) return false;
      QUIRE_RETURN_IF_ERROR(Hold(at, sizeof(log::RecordHeader)));
      uint64_t size = 0;
      const char* record = window_.data() + (at - begin_);
      // Checks the header alone, as nothing behind it is read yet.
      if (!log::PlausibleRecord(record, 0, end_ - at, &size)) return false;
      QUIRE_RETURN_IF_ERROR(Hold(at, size));
      record = window_.data() + (at - begin_);
      const uint64_t value_sum = log::ValueChecksum(log::ValueOf(record), header_.id, at);
      const uint64_t sum = log::ValueRecordChecksum(record, value_sum, header_.generation, at);
      if (log::HeaderAt(record)->checksum != sum) return false;
      at += size;
    }
    return true;
  }

 private:
  // The bytes [at, at + size) of the file, which are within it.
  Status Hold(uint64_t at, uint64_t size) {
    if (at >= begin_ && at + size <= begin_ + window_.size()) return Status();
    window_.resize(std::min(end_ - at, std::max(size, kVerifiedPieceBytes)));
    begin_ = at;
    return file_.ReadAt(at, window_.size(), window_.data());
  }

  const io::File& file_;
  const log::SegmentHeader& header_;
  const uint64_t end_;
  uint64_t begin_ = 0;
  std::string window_;
};

}  // namespace

TablesVerifier::TablesVerifier(io::FileSystem& fs, std::string directory)
    : fs_(fs), directory_(std::move(directory)), cache_(table::NewBlockCache(kCacheBytes)) {}

TablesVerifier::~TablesVerifier() = default;

Status TablesVerifier::Check(const std::string& name, uint64_t identity) {
  uint64_t number = 0;
  if (ParseNumberedName(name, "t-", ".sst", &number)) return CheckTable(number, identity);
  if (ParseNumberedName(name, "val-", ".seg", &number)) return CheckSegment(number, identity);
  return Status(Code::kInvalidArgument, name + " is neither a table nor a value segment");
}

Status TablesVerifier::CheckTable(uint64_t ssid, uint64_t file_id) {
  const std::string path = PathOf(TableName(ssid));
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<table::Table> table,
                         table::Table::Open(fs_, path, ssid, options_, cache_));
  if (table->info().file_id != file_id) {
    return Status(Code::kCorruption, path + " is another table than the one that was to be copied");
  }
  return table->VerifyChecksums();
}

Status TablesVerifier::CheckSegment(uint64_t id, uint64_t generation) {
  const std::string path = PathOf(ValueSegmentName(id));
  QUIRE_ASSIGN_OR_RETURN(const log::SegmentHeader header, log::ReadSegmentHeader(fs_, path));
  if (header.kind != log::SegmentKind::kValue || header.id != id ||
      header.generation != generation) {
    return Status(Code::kCorruption, path + " is another segment's file");
  }
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> file,
                         fs_.Open(path, io::FileOpenMode::kRead));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, file->Size());
  QUIRE_ASSIGN_OR_RETURN(const bool sound, SegmentWalk(*file, header, bytes).AllSound());
  if (!sound) with_holes_.insert(id);
  return Status();
}

bool TablesVerifier::HasHoles(const std::string& name) const {
  uint64_t number = 0;
  return ParseNumberedName(name, "val-", ".seg", &number) && with_holes_.contains(number);
}

Result<bool> TablesVerifier::FinishSome(const std::vector<std::string>& names) {
  if (references_.entries != nullptr) return CheckReferences();
  if (with_holes_.empty() || next_name_ == names.size()) return true;
  uint64_t ssid = 0;
  if (ParseNumberedName(names[next_name_++], "t-", ".sst", &ssid)) {
    QUIRE_RETURN_IF_ERROR(BeginReferences(ssid));
  }
  return false;
}

Status TablesVerifier::BeginReferences(uint64_t ssid) {
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<table::Table> table,
                         table::Table::Open(fs_, PathOf(TableName(ssid)), ssid, options_, cache_));
  const std::vector<table::SegmentUse>& uses = table->info().segments;
  const auto has_holes = [this](const auto& use) { return with_holes_.contains(use.segment_id); };
  if (std::none_of(uses.begin(), uses.end(), has_holes)) return Status();
  references_ = {table, ValueReader::Create(fs_, directory_), table->NewIterator(false)};
  references_.entries->SeekToFirst();
  return Status();
}

// False: there may be more. The next table is the next call's.
Result<bool> TablesVerifier::CheckReferences() {
  table::EntryIterator& entries = *references_.entries;
  uint64_t bytes = 0;
  for (int i = 0; i < kEntriesAtOnce && bytes < kVerifiedPieceBytes; ++i) {
    if (!entries.Valid()) {
      const Status read = entries.status();
      references_ = {};
      QUIRE_RETURN_IF_ERROR(read);
      return false;
    }
    if (entries.type() == log::RecordType::kValueRef) {
      const auto reference = base::LoadLe<log::ValueRef>(entries.value().data());
      if (with_holes_.contains(reference.segment_id)) {
        QUIRE_RETURN_IF_ERROR(references_.values->Check(reference));
        bytes += reference.value_size;
      }
    }
    entries.Next();
  }
  return false;
}

}  // namespace quire::lsm
