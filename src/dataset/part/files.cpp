#include "dataset/part/files.h"

#include <iterator>
#include <utility>

#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "filter/rank_map/rank_map.h"
#include "io/paths/sole_writer.h"
#include "runtime/checksummed_text.h"
#include "runtime/repository.h"

namespace quire::dataset {
namespace {

// Version 2 may name a partitioner.
constexpr runtime::TextKind kDescriptorKind = {
    "quire dataset ", 2, "restore the file from a copy, or remove the dataset"};
constexpr size_t kNameBytesMax = 255;
constexpr uint64_t kDescriptorBytesMax = 1 << 16;
constexpr uint64_t kRecordFileBytesMax = 1ull << 36;
constexpr size_t kEpochBytes = 40;
constexpr size_t kChecksumAt = kRecordBytes - 8;
constexpr size_t kExtentBytes = 24;
constexpr const char* kFormatNames[] = {"base", "pointer", "bloom", "cuckoo", "ribbon"};

// A record is bound to its dataset, its file and its place there.
uint64_t RecordSeed(uint64_t id, uint32_t rank, uint64_t at) {
  return base::ChecksumSeed(base::ChecksumKind::kDataset, id + 1 + rank, at);
}

uint64_t EpochsSeed(uint64_t id) {
  return base::ChecksumSeed(base::ChecksumKind::kDataset, id, 0);
}

uint64_t ListSeed(uint64_t attempt) {
  return base::ChecksumSeed(base::ChecksumKind::kDataset, attempt, UINT64_MAX);
}

void PutExtent(std::string* to, const Extent& extent) {
  base::PutFixed(to, extent.offset);
  base::PutFixed(to, extent.bytes);
  base::PutFixed(to, extent.file_id);
}

bool TakeExtents(base::ByteReader* reader, uint32_t count, uint64_t end,
                 std::vector<Extent>* extents) {
  if (count > reader->rest().size() / kExtentBytes) return false;
  extents->resize(count);
  for (Extent& extent : *extents) {
    if (!reader->Fixed(&extent.offset) || !reader->Fixed(&extent.bytes) ||
        !reader->Fixed(&extent.file_id)) {
      return false;
    }
    if (extent.offset > end || extent.bytes > end - extent.offset) return false;
  }
  return true;
}

bool TakeEpoch(base::ByteReader* reader, EpochRecord* record) {
  uint32_t zero = 0;
  return reader->Fixed(&record->number) && reader->Fixed(&record->attempt) &&
         reader->Fixed(&record->pair_count) && reader->Fixed(&record->unix_time) &&
         reader->Fixed(&record->rank_count) && reader->Fixed(&zero) && record->rank_count > 0 &&
         record->rank_count <= filter::kRankCountMax;
}

// Returns false if such a record cannot exist.
bool TakeFields(Slice fields, PartRecord* record) {
  base::ByteReader reader(fields);
  return reader.Fixed(&record->number) && reader.Fixed(&record->attempt) &&
         reader.Fixed(&record->pair_count) && reader.Fixed(&record->list_offset) &&
         reader.Fixed(&record->values_end) && reader.Fixed(&record->list_bytes) &&
         record->list_offset <= UINT64_MAX - record->list_bytes;
}

// Returns false if the record is not whole.
bool TakePart(Slice text, uint64_t id, uint32_t rank, PartRecord* record) {
  const auto checksum = base::LoadLe<uint64_t>(text.data() + kChecksumAt);
  const Slice fields = text.substr(0, kChecksumAt);
  return checksum == base::Checksum(fields, RecordSeed(id, rank, record->at)) &&
         TakeFields(fields, record);
}

}  // namespace

std::string PartPath(const std::string& directory, uint32_t rank) {
  return directory + "/part-" + std::to_string(rank);
}

std::string IndexPath(const std::string& directory, uint32_t rank) {
  return PartPath(directory, rank) + ".index";
}

std::string ValuesPath(const std::string& directory, uint32_t rank) {
  return PartPath(directory, rank) + ".values";
}

std::string PartLockPath(const std::string& directory, uint32_t rank) {
  return PartPath(directory, rank) + ".lock";
}

Status MissingFile(const std::string& path) {
  return Status(Code::kCorruption, path +
                                       " is missing: restore it, or put the storage on which it "
                                       "lies in place");
}

Status OtherStorage(const std::string& found, const std::string& directory) {
  return Status(Code::kCorruption,
                found +
                    ": start the ranks on the nodes that hold their parts, or restore what rank 0 "
                    "lacks, or, to begin anew, remove the directory " +
                    directory + " on all nodes");
}

const char* FormatName(DatasetFormat format) {
  return kFormatNames[static_cast<size_t>(format)];
}

Status CheckPartitioner(const DatasetDescriptor& descriptor, const std::string& name,
                        const std::string& directory) {
  if (descriptor.partitioner == name) return Status();
  return Status(Code::kInvalidArgument, "the dataset at " + directory +
                                            " was made with the partitioner \"" +
                                            descriptor.partitioner + "\", not \"" + name + "\"");
}

std::string EncodeDescriptor(const DatasetDescriptor& descriptor) {
  const bool by_hash = descriptor.partitioner == runtime::Partitioning::kByHash;
  runtime::TextKind kind = kDescriptorKind;
  if (by_hash) kind.version = 1;  // which earlier libraries read, too
  std::string text = runtime::BeginText(kind);
  runtime::AddLine(&text, "id", runtime::Hex(descriptor.id));
  runtime::AddLine(&text, "format", FormatName(descriptor.format));
  if (!by_hash) runtime::AddLine(&text, "partitioner", descriptor.partitioner);
  runtime::AppendChecksum(&text);
  return text;
}

Result<DatasetDescriptor> DecodeDescriptor(Slice text, const std::string& path) {
  DatasetDescriptor descriptor;
  bool has_format = false;
  const auto take = [&](Slice name, Slice value) {
    if (name == "id") {
      const auto id = runtime::ParseHex(value);
      descriptor.id = id.value_or(0);
      return id.has_value();
    }
    if (name == "partitioner") {
      descriptor.partitioner = std::string(value);
      return !value.empty() && value.size() <= kNameBytesMax;
    }
    if (name != "format") return false;
    for (size_t i = 0; i < std::size(kFormatNames); ++i) {
      if (value != Slice(kFormatNames[i])) continue;
      descriptor.format = static_cast<DatasetFormat>(i);
      return has_format = true;
    }
    return false;
  };
  QUIRE_RETURN_IF_ERROR(runtime::ReadChecksummedText(kDescriptorKind, text, path, take));
  if (descriptor.id != 0 && has_format) return descriptor;
  return runtime::DamagedText(kDescriptorKind, path, "it has no id or no format");
}

Result<DatasetDescriptor> ReadDescriptor(io::FileSystem& fs, const std::string& directory) {
  QUIRE_RETURN_IF_ERROR(io::CheckSoleWriter(fs, directory));
  const std::string path = directory + "/" + runtime::kDatasetFile;
  QUIRE_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(fs, path, kDescriptorBytesMax));
  return DecodeDescriptor(text, path);
}

std::string EncodeEpochs(const std::vector<EpochRecord>& epochs, uint64_t id) {
  std::string text;
  for (const EpochRecord& epoch : epochs) {
    base::PutFixed(&text, epoch.number);
    base::PutFixed(&text, epoch.attempt);
    base::PutFixed(&text, epoch.pair_count);
    base::PutFixed(&text, epoch.unix_time);
    base::PutFixed(&text, epoch.rank_count);
    base::PutFixed(&text, uint32_t{0});
  }
  base::PutFixed(&text, base::Checksum(text, EpochsSeed(id)));
  return text;
}

Result<std::vector<EpochRecord>> DecodeEpochs(Slice bytes, uint64_t id, const std::string& path) {
  const auto damaged = [&](const char* why) {
    return Status(Code::kCorruption,
                  path + ": " + why + "; restore it from a copy: no epoch is found without it");
  };
  if (bytes.size() % kEpochBytes != 8)
    return damaged("it has another size than any that is written");
  const Slice text = bytes.substr(0, bytes.size() - 8);
  if (base::LoadLe<uint64_t>(bytes.data() + text.size()) != base::Checksum(text, EpochsSeed(id))) {
    return damaged("its checksum does not match its contents");
  }
  std::vector<EpochRecord> epochs(text.size() / kEpochBytes);
  base::ByteReader reader(text);
  for (size_t i = 0; i < epochs.size(); ++i) {
    const bool rising =
        TakeEpoch(&reader, &epochs[i]) && (i == 0 || epochs[i - 1].number < epochs[i].number);
    if (!rising) return damaged("its epochs are not what is written");
  }
  return epochs;
}

Result<std::vector<EpochRecord>> ReadEpochs(io::FileSystem& fs, const std::string& directory,
                                            uint64_t id) {
  const std::string path = directory + "/" + kEpochsName;
  const Result<std::string> bytes = io::ReadFile(fs, path, kRecordFileBytesMax);
  if (bytes.ok()) return DecodeEpochs(*bytes, id, path);
  if (bytes.status().code() != Code::kNotFound) return bytes.status();
  QUIRE_ASSIGN_OR_RETURN(const auto records, ReadIndex(fs, directory, id, 0));
  if (!records.empty()) return MissingFile(path);
  return std::vector<EpochRecord>();
}

Result<uint64_t> CountEpochs(io::FileSystem& fs, const std::string& directory) {
  const auto file = fs.Open(directory + "/" + kEpochsName, io::FileOpenMode::kRead);
  if (file.status().code() == Code::kNotFound) return uint64_t{0};
  QUIRE_RETURN_IF_ERROR(file.status());
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, (*file)->Size());
  return size / kEpochBytes;
}

std::string EncodePart(const PartRecord& record, uint64_t id, uint32_t rank) {
  std::string text;
  base::PutFixed(&text, record.number);
  base::PutFixed(&text, record.attempt);
  base::PutFixed(&text, record.pair_count);
  base::PutFixed(&text, record.list_offset);
  base::PutFixed(&text, record.values_end);
  base::PutFixed(&text, record.list_bytes);
  text.resize(kChecksumAt);
  base::PutFixed(&text, base::Checksum(text, RecordSeed(id, rank, record.at)));
  return text;
}

std::vector<PartRecord> DecodeIndex(Slice bytes, uint64_t id, uint32_t rank) {
  std::vector<PartRecord> records;
  PartRecord record;
  for (; bytes.size() >= kRecordBytes; bytes.remove_prefix(kRecordBytes), ++record.at) {
    if (TakePart(bytes.substr(0, kRecordBytes), id, rank, &record)) records.push_back(record);
  }
  return records;
}

Result<std::vector<PartRecord>> ReadIndex(io::FileSystem& fs, const std::string& directory,
                                          uint64_t id, uint32_t rank) {
  const Result<std::string> bytes =
      io::ReadFile(fs, IndexPath(directory, rank), kRecordFileBytesMax);
  if (bytes.ok()) return DecodeIndex(*bytes, id, rank);
  if (bytes.status().code() == Code::kNotFound) return std::vector<PartRecord>();
  return bytes.status();
}

Result<PartRecord> FindRecord(const std::vector<PartRecord>& records, const EpochRecord& epoch,
                              const std::string& path) {
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (record->number == epoch.number && record->attempt == epoch.attempt) return *record;
  }
  return Status(Code::kCorruption, path + " has no whole record of the epoch " +
                                       std::to_string(epoch.number) +
                                       ", which is complete: the file is damaged or another one; "
                                       "restore it, or put the storage on which it lies in place");
}

// Reads the record of an epoch. Records of complete epochs follow each other; this rank has none of
// an epoch with fewer ranks.
Result<PartRecord> ReadRecord(const io::File& index, uint64_t id, uint32_t rank,
                              const std::vector<EpochRecord>& epochs, size_t which) {
  PartRecord record;
  for (size_t before = 0; before < which; ++before) {
    if (epochs[before].rank_count > rank) ++record.at;
  }
  char text[kRecordBytes];
  QUIRE_RETURN_IF_ERROR(index.ReadAt(record.at * kRecordBytes, kRecordBytes, text));
  const bool whole = TakePart(Slice(text, kRecordBytes), id, rank, &record);
  return FindRecord(whole ? std::vector{record} : std::vector<PartRecord>(), epochs[which],
                    index.path());
}

// Returns whether the files contain an epoch of another dataset. The list of an epoch is bound to
// its attempt alone, so it can be checked for any dataset.
Result<bool> HasEpochOfOther(const io::File& index, const io::File& part, uint64_t id,
                             uint32_t rank) {
  char text[kRecordBytes];
  QUIRE_RETURN_IF_ERROR(index.ReadAt(0, kRecordBytes, text));
  PartRecord record;
  if (TakePart(Slice(text, kRecordBytes), id, rank, &record)) return false;
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, part.Size());
  if (!TakeFields(Slice(text, kChecksumAt), &record) || record.end() > size) return false;
  std::string list(record.list_bytes, '\0');
  QUIRE_RETURN_IF_ERROR(part.ReadAt(record.list_offset, list.size(), list.data()));
  return DecodeList(list, record.attempt, record.list_offset, part.path()).ok();
}

std::string EncodeList(const PartList& list, uint64_t attempt) {
  std::string text;
  base::PutFixed(&text, static_cast<uint32_t>(list.tables.size()));
  base::PutFixed(&text, static_cast<uint32_t>(list.maps.size()));
  for (const Extent& extent : list.tables) PutExtent(&text, extent);
  for (const Extent& extent : list.maps) PutExtent(&text, extent);
  base::PutFixed(&text, base::Checksum(text, ListSeed(attempt)));
  return text;
}

Result<PartList> DecodeList(Slice bytes, uint64_t attempt, uint64_t offset,
                            const std::string& path) {
  const auto damaged = [&](const char* why) {
    return Status(Code::kCorruption, path + ": the list at " + std::to_string(offset) + " " + why);
  };
  if (bytes.size() < 16) return damaged("is too short");
  const Slice text = bytes.substr(0, bytes.size() - 8);
  const auto checksum = base::LoadLe<uint64_t>(bytes.data() + text.size());
  if (checksum != base::Checksum(text, ListSeed(attempt))) return damaged("is damaged");
  base::ByteReader reader(text);
  uint32_t table_count = 0;
  uint32_t map_count = 0;
  PartList list;
  if (!reader.Fixed(&table_count) || !reader.Fixed(&map_count) ||
      !TakeExtents(&reader, table_count, offset, &list.tables) ||
      !TakeExtents(&reader, map_count, offset, &list.maps) || !reader.rest().empty()) {
    return damaged("does not say where tables and maps are");
  }
  return list;
}

}  // namespace quire::dataset
