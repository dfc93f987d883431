#include "lsm/version/manifest.h"

#include <limits>
#include <utility>

#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "io/files/machine.h"

namespace quire::lsm {
namespace {

constexpr uint64_t kManifestMagic = 0x464E414D45524951;  // "QIREMANF"
constexpr uint32_t kFormat = 1;
constexpr size_t kManifestHeaderBytes = 56;
constexpr size_t kChecksumOffset = 48;
constexpr uint64_t kManifestBytesMax = 4ull << 30;
// of one encoded table: bounds counts before memory is taken
constexpr size_t kEncodedTableBytesMin = 12;
constexpr size_t kSegmentBytesMin = 2;
constexpr size_t kLogBytesMin = 9;

struct Header {
  uint64_t store_id = 0;
  uint64_t epoch = 0;
  uint64_t edition = 0;
  uint64_t payload_bytes = 0;
  uint64_t checksum = 0;
};

Status Corrupt(const std::string& path, const std::string& what) {
  return Status(Code::kCorruption,
                path + ": " + what + "; restore the file from a copy or checkpoint");
}

uint64_t ManifestChecksum(Slice header, Slice payload, uint64_t store_id) {
  return base::ChecksumParts(header, {}, payload,
                             base::ChecksumSeed(base::ChecksumKind::kManifest, store_id, 0));
}

Status DecodeHeader(Slice bytes, const std::string& path, Header* header) {
  base::ByteReader reader(bytes);
  uint64_t magic = 0;
  uint32_t format = 0;
  uint32_t reserved = 0;
  if (!reader.Fixed(&magic) || !reader.Fixed(&format) || !reader.Fixed(&reserved) ||
      !reader.Fixed(&header->store_id) || !reader.Fixed(&header->epoch) ||
      !reader.Fixed(&header->edition) || !reader.Fixed(&header->payload_bytes) ||
      !reader.Fixed(&header->checksum)) {
    return Corrupt(path, "the manifest ends within its header");
  }
  if (magic != kManifestMagic)
    return Corrupt(path, "this is no manifest (its first 8 bytes differ)");
  if (format > kFormat) {
    return Status(Code::kUnsupported, path + " has format " + std::to_string(format) +
                                          "; this version of Quire reads up to " +
                                          std::to_string(kFormat) + ": use a newer one");
  }
  return Status();
}

void EncodeOptions(const StorageOptions& options, std::string* to) {
  base::PutVarint(to, options.memtable_bytes);
  base::PutVarint(to, static_cast<uint64_t>(options.flushing_queue_length));
  base::PutVarint(to, static_cast<uint64_t>(options.wal));
  base::PutVarint(to, options.value_separation_bytes_min);
  base::PutVarint(to, options.value_segment_bytes);
  base::PutVarint(to, options.block_bytes);
  base::PutVarint(to, static_cast<uint64_t>(options.bloom_bits_per_key));
  base::PutVarint(to, static_cast<uint64_t>(options.compression));
  base::PutVarint(to, options.table_bytes_max);
  base::PutVarint(to, static_cast<uint64_t>(options.compaction));
}

bool DecodeOptions(base::ByteReader& reader, StorageOptions* options) {
  uint64_t queue = 0, log = 0, bloom = 0, compression = 0, compaction = 0;
  const bool ok = reader.Varint(&options->memtable_bytes) && reader.Varint(&queue) &&
                  reader.Varint(&log) && reader.Varint(&options->value_separation_bytes_min) &&
                  reader.Varint(&options->value_segment_bytes) &&
                  reader.Varint(&options->block_bytes) && reader.Varint(&bloom) &&
                  reader.Varint(&compression) && reader.Varint(&options->table_bytes_max) &&
                  reader.Varint(&compaction);
  if (!ok || queue > 1000 || log > 2 || bloom > 64 || compression > 2 || compaction > 1)
    return false;
  options->flushing_queue_length = static_cast<int>(queue);
  options->wal = static_cast<WalMode>(log);
  options->bloom_bits_per_key = static_cast<int>(bloom);
  options->compression = static_cast<Compression>(compression);
  options->compaction = static_cast<CompactionPolicy>(compaction);
  return true;
}

void EncodeTable(const table::TableInfo& table, std::string* to) {
  base::PutVarint(to, table.ssid);
  base::PutFixed(to, table.file_id);
  base::PutVarint(to, table.file_bytes);
  base::PutVarint(to, table.entry_count);
  base::PutVarint(to, table.key_count);
  base::PutVarint(to, table.tombstone_count);
  base::PutVarint(to, table.range_tombstone_count);
  base::PutVarint(to, table.raw_bytes);
  base::PutVarint(to, table.min_lsn);
  base::PutVarint(to, table.max_lsn);
  base::PutLengthPrefixed(to, table.smallest_key);
  base::PutLengthPrefixed(to, table.largest_key);
  base::PutVarint(to, table.segments.size());
  for (const table::SegmentUse& use : table.segments) {
    base::PutVarint(to, use.segment_id);
    base::PutVarint(to, use.bytes);
  }
}

bool DecodeTable(base::ByteReader& reader, table::TableInfo* table) {
  Slice smallest, largest;
  uint64_t segment_count = 0;
  if (!reader.Varint(&table->ssid) || !reader.Fixed(&table->file_id) ||
      !reader.Varint(&table->file_bytes) || !reader.Varint(&table->entry_count) ||
      !reader.Varint(&table->key_count) || !reader.Varint(&table->tombstone_count) ||
      !reader.Varint(&table->range_tombstone_count) || !reader.Varint(&table->raw_bytes) ||
      !reader.Varint(&table->min_lsn) || !reader.Varint(&table->max_lsn) ||
      !reader.LengthPrefixed(&smallest) || !reader.LengthPrefixed(&largest) ||
      !reader.Varint(&segment_count)) {
    return false;
  }
  if (segment_count > reader.rest().size() / kSegmentBytesMin) return false;
  if (table->range_tombstone_count > table->tombstone_count) return false;
  table->smallest_key = smallest;
  table->largest_key = largest;
  table->segments.resize(segment_count);
  for (table::SegmentUse& use : table->segments) {
    if (!reader.Varint(&use.segment_id) || !reader.Varint(&use.bytes)) return false;
  }
  return true;
}

bool DecodeRuns(base::ByteReader& reader, Manifest* manifest) {
  uint64_t run_count = 0;
  if (!reader.Varint(&run_count) || run_count > reader.rest().size() / kEncodedTableBytesMin)
    return false;
  manifest->runs.resize(run_count);
  for (std::vector<table::TableInfo>& run : manifest->runs) {
    uint64_t table_count = 0;
    if (!reader.Varint(&table_count) ||
        table_count > reader.rest().size() / kEncodedTableBytesMin) {
      return false;
    }
    run.resize(table_count);
    for (table::TableInfo& table : run) {
      if (!DecodeTable(reader, &table)) return false;
    }
  }
  return true;
}

bool DecodeSegments(base::ByteReader& reader, Manifest* manifest) {
  uint64_t count = 0;
  if (!reader.Varint(&count) || count > reader.rest().size() / kSegmentBytesMin) return false;
  manifest->value_segments.resize(count);
  for (StoredSegment& segment : manifest->value_segments) {
    if (!reader.Varint(&segment.id) || !reader.Varint(&segment.file_bytes)) return false;
  }
  if (!reader.Varint(&count) || count > reader.rest().size() / kLogBytesMin) return false;
  manifest->log_segments.resize(count);
  for (StoredLog& log : manifest->log_segments) {
    if (!reader.Varint(&log.pool_slot) || !reader.Fixed(&log.generation)) return false;
  }
  return true;
}

void EncodeSegments(const Manifest& manifest, std::string* to) {
  base::PutVarint(to, manifest.value_segments.size());
  for (const StoredSegment& segment : manifest.value_segments) {
    base::PutVarint(to, segment.id);
    base::PutVarint(to, segment.file_bytes);
  }
  base::PutVarint(to, manifest.log_segments.size());
  for (const StoredLog& log : manifest.log_segments) {
    base::PutVarint(to, log.pool_slot);
    base::PutFixed(to, log.generation);
  }
}

std::string EncodePayload(const Manifest& manifest) {
  std::string payload;
  base::PutVarint(&payload, manifest.flushed_lsn);
  base::PutVarint(&payload, manifest.next_ssid);
  base::PutVarint(&payload, manifest.next_value_segment_id);
  base::PutVarint(&payload, manifest.value_segment_floor);
  base::PutFixed(&payload, manifest.boot_id);
  EncodeOptions(manifest.options, &payload);
  base::PutVarint(&payload, manifest.runs.size());
  for (const std::vector<table::TableInfo>& run : manifest.runs) {
    base::PutVarint(&payload, run.size());
    for (const table::TableInfo& table : run) EncodeTable(table, &payload);
  }
  EncodeSegments(manifest, &payload);
  return payload;
}

// Returns whether a manifest has what every manifest of ours has, whatever its checksum says.
bool Plausible(const Manifest& manifest) {
  for (const std::vector<table::TableInfo>& run : manifest.runs) {
    if (run.empty()) return false;
    for (const table::TableInfo& table : run) {
      if (table.ssid == 0 || table.ssid >= manifest.next_ssid) return false;
      if (table.smallest_key > table.largest_key) return false;
    }
    for (size_t i = 1; i < run.size(); ++i) {
      if (run[i].smallest_key < run[i - 1].largest_key) return false;
    }
  }
  if (manifest.value_segment_floor > manifest.next_value_segment_id) return false;
  uint64_t previous_id = 0;
  for (const StoredSegment& segment : manifest.value_segments) {
    if (segment.id <= previous_id || segment.id >= manifest.next_value_segment_id) return false;
    previous_id = segment.id;
  }
  return true;
}

// Reads the header of the manifest on disk, without decoding the tables.
Result<Header> StoredHeader(io::FileSystem& fs, const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> file,
                         fs.Open(path, io::FileOpenMode::kRead));
  char bytes[kManifestHeaderBytes];
  QUIRE_RETURN_IF_ERROR(file->ReadAt(0, sizeof bytes, bytes));
  Header header;
  QUIRE_RETURN_IF_ERROR(DecodeHeader(Slice(bytes, sizeof bytes), path, &header));
  return header;
}

Status OtherDatabase(const std::string& path) {
  return Status(Code::kBusy, path + ": another database was made in the place of this one, whose "
                                    "directory was moved or removed while it was open; close it "
                                    "here");
}

Status TakenOver(const std::string& path, const Header& stored, const std::string& ours) {
  return Status(Code::kBusy, path + ": the database was taken over by a later opener (epoch " +
                                 std::to_string(stored.epoch) + " edition " +
                                 std::to_string(stored.edition) + "; ours has " + ours +
                                 "); close it here");
}

}  // namespace

std::string ManifestName() {
  return "MANIFEST";
}

std::string LockPath(const std::string& directory) {
  return directory + "/LOCK";
}

std::string TableName(uint64_t ssid) {
  return "t-" + std::to_string(ssid) + ".sst";
}

bool ParseNumberedName(Slice name, Slice prefix, Slice suffix, uint64_t* number) {
  if (name.size() <= prefix.size() + suffix.size() || !name.starts_with(prefix) ||
      !name.ends_with(suffix)) {
    return false;
  }
  const Slice digits = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  if (digits.size() > 1 && digits[0] == '0') return false;
  uint64_t value = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return false;
    const uint64_t next = static_cast<uint64_t>(digit - '0');
    if (value > (std::numeric_limits<uint64_t>::max() - next) / 10) return false;
    value = value * 10 + next;
  }
  *number = value;
  return true;
}

std::string EncodeManifest(const Manifest& manifest) {
  const std::string payload = EncodePayload(manifest);
  std::string bytes;
  bytes.reserve(kManifestHeaderBytes + payload.size());
  base::PutFixed(&bytes, kManifestMagic);
  base::PutFixed(&bytes, kFormat);
  base::PutFixed(&bytes, uint32_t{0});
  base::PutFixed(&bytes, manifest.store_id);
  base::PutFixed(&bytes, manifest.epoch);
  base::PutFixed(&bytes, manifest.edition);
  base::PutFixed(&bytes, uint64_t{payload.size()});
  base::PutFixed(&bytes, ManifestChecksum(bytes, payload, manifest.store_id));
  return bytes + payload;
}

Result<Manifest> DecodeManifest(Slice bytes, const std::string& path) {
  Header header;
  QUIRE_RETURN_IF_ERROR(DecodeHeader(bytes, path, &header));
  const Slice payload = bytes.substr(kManifestHeaderBytes);
  if (payload.size() != header.payload_bytes) {
    return Corrupt(path, "the manifest has " + std::to_string(payload.size()) +
                             " bytes after its header, which says " +
                             std::to_string(header.payload_bytes));
  }
  if (ManifestChecksum(bytes.substr(0, kChecksumOffset), payload, header.store_id) !=
      header.checksum) {
    return Corrupt(path, "the manifest's checksum does not hold");
  }
  Manifest manifest;
  manifest.store_id = header.store_id;
  manifest.epoch = header.epoch;
  manifest.edition = header.edition;
  base::ByteReader reader(payload);
  if (!reader.Varint(&manifest.flushed_lsn) || !reader.Varint(&manifest.next_ssid) ||
      !reader.Varint(&manifest.next_value_segment_id) ||
      !reader.Varint(&manifest.value_segment_floor) || !reader.Fixed(&manifest.boot_id) ||
      !DecodeOptions(reader, &manifest.options) || !DecodeRuns(reader, &manifest) ||
      !DecodeSegments(reader, &manifest) || !reader.rest().empty() || !Plausible(manifest)) {
    return Corrupt(path, "the manifest's fields cannot be");
  }
  return manifest;
}

Result<Manifest> ReadManifest(io::FileSystem& fs, const std::string& directory) {
  const std::string path = directory + "/" + ManifestName();
  QUIRE_ASSIGN_OR_RETURN(const std::string bytes, io::ReadFile(fs, path, kManifestBytesMax));
  return DecodeManifest(bytes, path);
}

Status PublishManifest(io::FileSystem& fs, const std::string& directory, const Manifest& manifest,
                       uint64_t previous_epoch) {
  const std::string path = directory + "/" + ManifestName();
  QUIRE_ASSIGN_OR_RETURN(const Header stored, StoredHeader(fs, path));
  if (stored.store_id != manifest.store_id) return OtherDatabase(path);
  const bool ours = stored.epoch == manifest.epoch || stored.epoch == previous_epoch;
  if (!ours || stored.edition + 1 != manifest.edition) {
    return TakenOver(path, stored, "epoch " + std::to_string(manifest.epoch) + " edition " +
                                       std::to_string(manifest.edition));
  }
  return io::ReplaceFile(fs, path, EncodeManifest(manifest));
}

Status CheckHeld(io::FileSystem& fs, const std::string& directory, uint64_t store_id,
                 uint64_t epoch) {
  const std::string path = directory + "/" + ManifestName();
  QUIRE_ASSIGN_OR_RETURN(const Header stored, StoredHeader(fs, path));
  if (stored.store_id != store_id) return OtherDatabase(path);
  if (stored.epoch == epoch) return Status();
  return TakenOver(path, stored, "epoch " + std::to_string(epoch));
}

Result<uint64_t> StoredEdition(io::FileSystem& fs, const std::string& directory) {
  QUIRE_ASSIGN_OR_RETURN(const Header stored, StoredHeader(fs, directory + "/" + ManifestName()));
  return stored.edition;
}

Result<bool> StillStored(io::FileSystem& fs, const std::string& directory,
                         const Manifest& manifest) {
  const Result<Header> stored = StoredHeader(fs, directory + "/" + ManifestName());
  if (stored.status().code() == Code::kNotFound) return false;
  QUIRE_RETURN_IF_ERROR(stored.status());
  return stored->store_id == manifest.store_id && stored->epoch == manifest.epoch &&
         stored->edition == manifest.edition;
}

Status CreateManifest(io::FileSystem& fs, const std::string& directory, const Manifest& manifest) {
  return io::ReplaceFile(fs, directory + "/" + ManifestName(), EncodeManifest(manifest));
}

Status GiveNewStoreId(io::FileSystem& fs, const std::string& directory) {
  QUIRE_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(fs, directory));
  manifest.store_id = io::RandomU64();
  return CreateManifest(fs, directory, manifest);
}

}  // namespace quire::lsm
