#include "dataset/part/part_writer.h"

#include <algorithm>
#include <utility>

#include "dataset/part/value_file.h"
#include "io/files/machine.h"
#include "io/paths/file_section.h"

namespace quire::dataset {
namespace {

constexpr size_t kValuesPieceBytes = 256 << 10;

Status CheckReaches(const io::File& file, uint64_t end) {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, file.Size());
  if (size >= end) return Status();
  return Status(Code::kCorruption, file.path() + " ends at " + std::to_string(size) +
                                       ", before what its index names: it was cut off");
}

// Returns the size of a file; 0 if there is none.
Result<uint64_t> SizeOf(const io::File* file) {
  return file == nullptr ? uint64_t{0} : file->Size();
}

// Opens a file; null if there is none, which is an error if it has epochs.
Result<std::unique_ptr<io::File>> OpenFile(io::FileSystem& fs, const std::string& path,
                                           bool has_epochs) {
  Result<std::unique_ptr<io::File>> file = fs.Open(path, io::FileOpenMode::kReadWrite);
  if (file.ok() || file.status().code() != Code::kNotFound) return file;
  if (has_epochs) return MissingFile(path);
  return std::unique_ptr<io::File>();
}

}  // namespace

Result<std::unique_ptr<PartWriter>> PartWriter::Open(Options options,
                                                     const std::vector<EpochRecord>& epochs) {
  std::unique_ptr<PartWriter> writer(new PartWriter(std::move(options)));
  const bool has_epochs = std::any_of(
      epochs.begin(), epochs.end(),
      [&writer](const EpochRecord& epoch) { return epoch.rank_count > writer->options_.rank; });
  QUIRE_RETURN_IF_ERROR(writer->OpenFiles(has_epochs));
  QUIRE_RETURN_IF_ERROR(writer->TakeLast(epochs));
  QUIRE_RETURN_IF_ERROR(writer->CheckRest());
  return writer;
}

Status PartWriter::Prepare() {
  if (part_ == nullptr || index_ == nullptr || (options_.values && values_file_ == nullptr)) {
    QUIRE_RETURN_IF_ERROR(CreateFiles());
  }
  // Files without an epoch may be those of a job that was killed before their names were durable.
  if (next_at_ == 0) QUIRE_RETURN_IF_ERROR(options_.fs->SyncDirectory(options_.directory));
  return Rewind();
}

Status PartWriter::OpenFiles(bool has_epochs) {
  io::FileSystem& fs = *options_.fs;
  const std::string& directory = options_.directory;
  const uint32_t rank = options_.rank;
  QUIRE_ASSIGN_OR_RETURN(lock_, made_.Lock(*options_.fs, PartLockPath(directory, rank),
                                             io::ProcessDescription()));
  QUIRE_ASSIGN_OR_RETURN(part_, OpenFile(fs, PartPath(directory, rank), has_epochs));
  QUIRE_ASSIGN_OR_RETURN(index_, OpenFile(fs, IndexPath(directory, rank), has_epochs));
  if (!options_.values) return Status();
  QUIRE_ASSIGN_OR_RETURN(values_file_, OpenFile(fs, ValuesPath(directory, rank), has_epochs));
  return Status();
}

Status PartWriter::CreateFiles() {
  const std::string& directory = options_.directory;
  const uint32_t rank = options_.rank;
  QUIRE_ASSIGN_OR_RETURN(part_, CreateFile(PartPath(directory, rank)));
  QUIRE_ASSIGN_OR_RETURN(index_, CreateFile(IndexPath(directory, rank)));
  if (options_.values) {
    QUIRE_ASSIGN_OR_RETURN(values_file_, CreateFile(ValuesPath(directory, rank)));
  }
  return Status();
}

Result<std::unique_ptr<io::File>> PartWriter::CreateFile(const std::string& path) {
  QUIRE_RETURN_IF_ERROR(made_.AddFileIfAbsent(*options_.fs, path));
  return options_.fs->Open(path, io::FileOpenMode::kReadWriteCreate);
}

// Finds the last complete epoch in which this rank has a part.
Status PartWriter::TakeLast(const std::vector<EpochRecord>& epochs) {
  const auto records = ReadIndex(*options_.fs, options_.directory, options_.id, options_.rank);
  QUIRE_RETURN_IF_ERROR(records.status());
  for (auto epoch = epochs.rbegin(); epoch != epochs.rend(); ++epoch) {
    if (epoch->rank_count <= options_.rank) continue;
    QUIRE_ASSIGN_OR_RETURN(
        kept_, FindRecord(*records, *epoch, IndexPath(options_.directory, options_.rank)));
    next_at_ = kept_.at + 1;
    break;
  }
  if (next_at_ == 0) return Status();
  QUIRE_RETURN_IF_ERROR(CheckReaches(*part_, kept_.end()));
  return options_.values ? CheckReaches(*values_file_, kept_.values_end) : Status();
}

// Checks the bytes after the last complete epoch, which will be cut off. An epoch that was not
// completed leaves one record at most, which is removed before the next one is written.
Status PartWriter::CheckRest() const {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, SizeOf(index_.get()));
  if (size > (next_at_ + 1) * kRecordBytes) {
    const std::string found = IndexPath(options_.directory, options_.rank) + " has records of " +
                              std::to_string(size / kRecordBytes) + " epochs, but rank 0 knows " +
                              std::to_string(next_at_) + " of them";
    return OtherStorage(found, options_.directory);
  }
  return next_at_ == 0 ? CheckBeginning() : Status();
}

// Checks the files of a rank that has no part in any epoch that rank 0 knows.
Status PartWriter::CheckBeginning() const {
  const std::string path = PartPath(options_.directory, options_.rank);
  QUIRE_ASSIGN_OR_RETURN(const uint64_t index_size, SizeOf(index_.get()));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t part_size, SizeOf(part_.get()));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t values_size, SizeOf(values_file_.get()));
  if (options_.begins && index_size + part_size + values_size > 0) {
    return OtherStorage(path + " is there, but rank 0 found no dataset", options_.directory);
  }
  if (part_size == 0 || index_size < kRecordBytes) return Status();
  QUIRE_ASSIGN_OR_RETURN(const bool other,
                         HasEpochOfOther(*index_, *part_, options_.id, options_.rank));
  if (!other) return Status();
  return OtherStorage(path + " has an epoch of another dataset than the one that rank 0 found",
                      options_.directory);
}

Status PartWriter::AddTable(PairBuffer* pairs, bool only) {
  StorageOptions storage = options_.storage;
  // If there is only one table, all candidates are looked up in it anyway: the filter would be more
  // to read than the block that it may save.
  if (only) storage.bloom_bits_per_key = 0;
  const uint64_t ssid = list_.tables.size() + 1;
  const uint64_t file_id = io::RandomU64();
  const auto builder =
      table::TableBuilder::CreateIn(io::NewFileTail(part_, end_), ssid, file_id, storage);
  QUIRE_RETURN_IF_ERROR(pairs->AddTo(builder.get()));
  QUIRE_ASSIGN_OR_RETURN(const table::TableInfo info, builder->Finish());
  list_.tables.push_back({end_, info.file_bytes, file_id});
  end_ += info.file_bytes;
  table_bytes_ += info.file_bytes;
  pair_count_ += info.entry_count;
  return Status();
}

Status PartWriter::AddMap(const filter::RankMapOptions& options,
                          std::vector<filter::KeyRank>* pairs) {
  const std::string map = filter::BuildRankMap(options, pairs, options_.executor);
  QUIRE_RETURN_IF_ERROR(part_->WriteAt(end_, map));
  part_->StartWriteBack(end_, map.size());
  list_.maps.push_back({end_, map.size(), filter::RankMap::Fingerprint(map)});
  end_ += map.size();
  map_bytes_ += map.size();
  return Status();
}

Status PartWriter::AddValue(Slice value) {
  EncodeValue(value, ValueSeed(options_.id, options_.rank, values_end()), &values_);
  return values_.size() < kValuesPieceBytes ? Status() : WriteValues();
}

Status PartWriter::WriteValues() {
  if (values_.empty()) return Status();
  QUIRE_RETURN_IF_ERROR(values_file_->WriteAt(values_end_, values_));
  values_file_->StartWriteBack(values_end_, values_.size());
  values_end_ += values_.size();
  values_.clear();
  return Status();
}

Status PartWriter::Seal(uint64_t number, uint64_t attempt) {
  if (options_.values) {
    QUIRE_RETURN_IF_ERROR(WriteValues());
    QUIRE_RETURN_IF_ERROR(values_file_->Sync());
  }
  const std::string list = EncodeList(list_, attempt);
  QUIRE_RETURN_IF_ERROR(part_->WriteAt(end_, list));
  QUIRE_RETURN_IF_ERROR(part_->Sync());
  sealed_ = {next_at_,   number, attempt, pair_count_, end_, static_cast<uint32_t>(list.size()),
             values_end_};
  QUIRE_RETURN_IF_ERROR(
      index_->WriteAt(next_at_ * kRecordBytes, EncodePart(sealed_, options_.id, options_.rank)));
  return index_->Sync();
}

void PartWriter::Keep() {
  kept_ = sealed_;
  next_at_ = kept_.at + 1;
  end_ = kept_.end();
  list_ = {};
  pair_count_ = 0;
}

// Removes everything after the last complete epoch, also because some of its pages may not have
// been synced: Linux counts those as written, and a later sync would skip them. The next attempt
// writes its bytes in their place, and so rewrites each page that an epoch shares with the one
// before it.
Status PartWriter::Rewind() {
  end_ = kept_.end();
  values_end_ = kept_.values_end;
  values_.clear();
  list_ = {};
  pair_count_ = 0;
  QUIRE_RETURN_IF_ERROR(index_->Truncate(next_at_ * kRecordBytes));
  if (options_.values) QUIRE_RETURN_IF_ERROR(values_file_->Truncate(values_end_));
  return part_->Truncate(end_);
}

}  // namespace quire::dataset
