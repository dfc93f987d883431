#include "stream/log/log_format.h"

#include <cstring>
#include <utility>

#include "base/hash/hash.h"
#include "base/text/coding.h"

namespace quire::stream {
namespace {

constexpr uint64_t kLogMagic = 0x31474F4C4D545351;  // "QSTMLOG1"
constexpr uint32_t kLogVersion = 1;
constexpr uint32_t kRecordMagic = 0x544D4D43;  // "CMMT"
constexpr uint32_t kErasedMagic = 0x454E4F47;  // "GONE"
constexpr size_t kChecksumBytes = sizeof(uint64_t);

constexpr uint64_t kDelta = 1;  // flags of an entry
constexpr uint64_t kPacked = 2;
constexpr uint64_t kContentHash = 4;

uint64_t Seed(base::ChecksumKind kind, uint64_t log_id, Position at) {
  return base::ChecksumSeed(kind, log_id, at);
}

// Pads with zeros up to `size`, and stores the checksum of all bytes before in the last 8 bytes.
std::string Seal(std::string bytes, size_t size, uint64_t seed) {
  bytes.resize(size - kChecksumBytes);
  const uint64_t checksum = base::Checksum(bytes, seed);
  base::PutFixed<uint64_t>(&bytes, checksum);
  return bytes;
}

bool Sealed(Slice bytes, uint64_t seed) {
  const size_t covered = bytes.size() - kChecksumBytes;
  return base::Checksum(bytes.substr(0, covered), seed) ==
         base::LoadLe<uint64_t>(bytes.data() + covered);
}

Status DamagedLog(const std::string& what) {
  return Status(Code::kCorruption, what);
}

bool Possible(const Record& record) {
  return record.bytes >= kRecordBytes && record.bytes % kRecordBytes == 0 &&
         record.directory >= kRecordBytes && record.directory <= record.bytes &&
         record.directory % kRecordBytes == 0;
}

constexpr uint64_t kDirectoryHashOffset = kRecordBytes - kChecksumBytes - sizeof(uint64_t);
constexpr uint64_t kReliesOnOffset = kPageBytes - kChecksumBytes - sizeof(uint64_t);

constexpr uint64_t kCountMax = uint64_t{1} << 62;  // for positions, sequences, snapshots

bool Possible(const Head& head) {
  return head.synced >= 1 && head.synced <= head.sequence && head.head % kRecordBytes == 0 &&
         head.sequence <= kCountMax && head.head <= kCountMax && head.durable <= kCountMax &&
         head.relies_on % kRecordBytes == 0 && head.relies_on <= kCountMax;
}

bool ReadKept(base::ByteReader* reader, uint64_t count, std::vector<uint64_t>* kept) {
  kept->resize(count);
  for (uint64_t& snapshot : *kept) {
    if (!reader->Fixed(&snapshot)) return false;
  }
  return true;
}

}  // namespace

std::string EncodeIdentity(const Identity& identity) {
  std::string page;
  base::PutFixed<uint64_t>(&page, kLogMagic);
  base::PutFixed<uint32_t>(&page, kLogVersion);
  base::PutFixed<uint32_t>(&page, identity.rank);
  base::PutFixed<uint64_t>(&page, identity.log_id);
  base::PutFixed<uint64_t>(&page, identity.capacity);
  base::PutLengthPrefixed(&page, identity.store);
  return Seal(std::move(page), kPageBytes, Seed(base::ChecksumKind::kStreamHead, 0, 0));
}

Result<Identity> DecodeIdentity(Slice page, const std::string& path) {
  Identity identity;
  uint64_t magic = 0;
  uint32_t version = 0;
  base::ByteReader reader(page);
  if (page.size() != kPageBytes || !reader.Fixed(&magic) || magic != kLogMagic) {
    return DamagedLog(path + " is no log of a stream");
  }
  if (!Sealed(page, Seed(base::ChecksumKind::kStreamHead, 0, 0))) {
    return DamagedLog("the first page of " + path + " is damaged");
  }
  Slice store;
  if (!reader.Fixed(&version) || !reader.Fixed(&identity.rank) || !reader.Fixed(&identity.log_id) ||
      !reader.Fixed(&identity.capacity) || !reader.LengthPrefixed(&store)) {
    return DamagedLog("the first page of " + path + " is damaged");
  }
  if (version != kLogVersion) {
    return Status(Code::kUnsupported, path + " has version " + std::to_string(version) +
                                          "; this program knows " + std::to_string(kLogVersion));
  }
  if (identity.capacity == 0 || identity.capacity % kPageBytes != 0) {
    return DamagedLog("the first page of " + path + " gives an impossible size");
  }
  identity.store = std::string(store);
  return identity;
}

std::string EncodeHead(const Head& head, uint64_t log_id, std::string page) {
  page.clear();
  base::PutFixed<uint64_t>(&page, head.sequence);
  base::PutFixed<uint64_t>(&page, head.synced);
  base::PutFixed<uint64_t>(&page, head.head);
  base::PutFixed<uint64_t>(&page, head.durable);
  base::PutFixed<uint64_t>(&page, head.boot_id);
  base::PutFixed<uint64_t>(&page, head.keep_ms);
  base::PutFixed<uint32_t>(&page, head.keep_versions);
  base::PutFixed<uint32_t>(&page, head.finished ? 1 : 0);
  base::PutFixed<uint64_t>(&page, head.kept.size());
  for (const uint64_t snapshot : head.kept) base::PutFixed<uint64_t>(&page, snapshot);
  page.resize(kReliesOnOffset);
  base::PutFixed<uint64_t>(&page, head.relies_on);
  return Seal(std::move(page), kPageBytes, Seed(base::ChecksumKind::kStreamHead, log_id, 1));
}

Result<Head> DecodeHead(Slice page, uint64_t log_id) {
  if (page.size() != kPageBytes ||
      !Sealed(page, Seed(base::ChecksumKind::kStreamHead, log_id, 1))) {
    return DamagedLog("a head is damaged");
  }
  Head head;
  uint32_t flags = 0;
  uint64_t kept_count = 0;
  base::ByteReader reader(page);
  bool read = true;
  for (uint64_t* field :
       {&head.sequence, &head.synced, &head.head, &head.durable, &head.boot_id, &head.keep_ms}) {
    read = read && reader.Fixed(field);
  }
  read = read && reader.Fixed(&head.keep_versions) && reader.Fixed(&flags) &&
         reader.Fixed(&kept_count);
  if (!read || kept_count > kKeptMax) return DamagedLog("a head is damaged");
  head.finished = (flags & 1) != 0;
  if (!ReadKept(&reader, kept_count, &head.kept)) return DamagedLog("a head is damaged");
  head.relies_on = base::LoadLe<uint64_t>(page.data() + kReliesOnOffset);
  if (!Possible(head)) return DamagedLog("a head says what cannot be");
  return head;
}

uint64_t DirectoryHash(Slice entry, uint64_t before) {
  return base::Checksum(entry, before);
}

std::string EncodeRecord(const Record& record, uint64_t log_id, Position at) {
  std::string line;
  line.reserve(kRecordBytes);
  base::PutFixed<uint32_t>(&line, kRecordMagic);
  base::PutFixed<uint32_t>(&line, static_cast<uint32_t>(record.kind));
  base::PutFixed<uint64_t>(&line, record.bytes);
  base::PutFixed<uint64_t>(&line, record.directory);
  base::PutFixed<uint64_t>(&line, record.snapshot);
  base::PutFixed<uint64_t>(&line, record.unix_time_ns);
  base::PutFixed<uint32_t>(&line, record.entry_count);
  line.resize(kDirectoryHashOffset);
  base::PutFixed<uint64_t>(&line, record.directory_hash);
  return Seal(std::move(line), kRecordBytes, Seed(base::ChecksumKind::kStreamCommit, log_id, at));
}

bool MayBeRecord(const char* line) {
  return base::LoadLe<uint32_t>(line) == kRecordMagic;
}

std::string EncodeErased() {
  std::string line;
  base::PutFixed<uint32_t>(&line, kErasedMagic);
  line.resize(kRecordBytes);
  return line;
}

bool IsErased(const char* line) {
  return base::LoadLe<uint32_t>(line) == kErasedMagic;
}

Result<Record> DecodeRecord(Slice line, uint64_t log_id, Position at) {
  Record record;
  uint32_t magic = 0;
  uint32_t kind = 0;
  base::ByteReader reader(line);
  const bool sealed = line.size() == kRecordBytes && reader.Fixed(&magic) &&
                      magic == kRecordMagic &&
                      Sealed(line, Seed(base::ChecksumKind::kStreamCommit, log_id, at));
  if (!sealed) return DamagedLog("there is no commit");
  bool read = reader.Fixed(&kind);
  for (uint64_t* field :
       {&record.bytes, &record.directory, &record.snapshot, &record.unix_time_ns}) {
    read = read && reader.Fixed(field);
  }
  read = read && reader.Fixed(&record.entry_count);
  record.directory_hash = base::LoadLe<uint64_t>(line.data() + kDirectoryHashOffset);
  record.kind = static_cast<RecordKind>(kind);
  if (!read || kind < 1 || kind > 3 || !Possible(record)) {
    return DamagedLog("a commit gives impossible sizes");
  }
  return record;
}

uint64_t EntryBytes(uint64_t key_bytes, uint64_t extents) {
  const uint64_t bytes = kEntryFixedBytes + key_bytes + extents * sizeof(uint64_t);
  return AlignUp(bytes + kChecksumBytes, kRecordBytes);
}

namespace {

// Writes fields one behind another.
class FieldWriter {
 public:
  explicit FieldWriter(char* to) : at_(to) {}
  template <typename T>
  void Fixed(T value) {
    base::StoreLe(at_, value);
    at_ += sizeof value;
  }
  void Bytes(Slice bytes) {
    bytes.copy(at_, bytes.size());
    at_ += bytes.size();
  }
  char* at() const { return at_; }

 private:
  char* at_;
};

}  // namespace

uint64_t EncodeEntry(const VersionEntry& entry, uint64_t log_id, Position at, char* to) {
  const uint64_t size = EntryBytes(entry.key.size(), entry.shape.extents.size());
  const uint64_t flags = (entry.delta ? kDelta : 0) | (entry.packed ? kPacked : 0) |
                         (entry.has_content_hash ? kContentHash : 0);
  FieldWriter writer(to);
  writer.Fixed(static_cast<uint32_t>(size));
  writer.Fixed(static_cast<uint16_t>(entry.key.size()));
  writer.Fixed(static_cast<uint8_t>(entry.shape.extents.size()));
  writer.Fixed(static_cast<uint8_t>(entry.shape.element));
  for (const uint64_t field :
       {entry.version, entry.snapshot, entry.unix_time_ns, entry.bytes, entry.data, entry.stored,
        entry.checksum, entry.content_hash, flags}) {
    writer.Fixed(field);
  }
  for (const uint64_t extent : entry.shape.extents) writer.Fixed(extent);
  writer.Bytes(entry.key);
  char* const checksum = to + size - kChecksumBytes;
  std::memset(writer.at(), 0, static_cast<size_t>(checksum - writer.at()));
  const uint64_t seed = Seed(base::ChecksumKind::kStreamEntry, log_id, at);
  base::StoreLe(checksum, base::Checksum(Slice(to, size - kChecksumBytes), seed));
  return size;
}

namespace {

bool ReadEntry(base::ByteReader* reader, VersionEntry* entry) {
  uint32_t size = 0;
  uint16_t key_size = 0;
  uint8_t extent_count = 0;
  uint8_t element = 0;
  uint64_t flags = 0;
  bool read = reader->Fixed(&size) && reader->Fixed(&key_size) && reader->Fixed(&extent_count) &&
              reader->Fixed(&element);
  for (uint64_t* field :
       {&entry->version, &entry->snapshot, &entry->unix_time_ns, &entry->bytes, &entry->data,
        &entry->stored, &entry->checksum, &entry->content_hash, &flags}) {
    read = read && reader->Fixed(field);
  }
  const bool possible = extent_count <= kExtentsMax && element < kElementTypes &&
                        key_size <= kKeyBytesMax && size == EntryBytes(key_size, extent_count);
  if (!read || !possible) return false;
  entry->shape.element = static_cast<ElementType>(element);
  entry->shape.extents.resize(extent_count);
  for (uint64_t& extent : entry->shape.extents) {
    if (!reader->Fixed(&extent)) return false;
  }
  if (!ShapeFits(entry->bytes, entry->shape)) return false;
  Slice key;
  if (!reader->Bytes(key_size, &key)) return false;
  entry->key = std::string(key);
  entry->delta = (flags & kDelta) != 0;
  entry->packed = (flags & kPacked) != 0;
  entry->has_content_hash = (flags & kContentHash) != 0;
  entry->encoded = size;
  return true;
}

}  // namespace

Result<VersionEntry> DecodeEntry(Slice bytes, uint64_t log_id, Position at) {
  if (bytes.size() < kRecordBytes) return DamagedLog("an entry is cut off");
  const uint32_t size = base::LoadLe<uint32_t>(bytes.data());
  if (size < kRecordBytes || size > kEntryBytesMax || size > bytes.size() ||
      !Sealed(bytes.substr(0, size), Seed(base::ChecksumKind::kStreamEntry, log_id, at))) {
    return DamagedLog("an entry is damaged");
  }
  VersionEntry entry;
  base::ByteReader reader(bytes.substr(0, size));
  if (!ReadEntry(&reader, &entry)) return DamagedLog("an entry is damaged");
  return entry;
}

StreamVersion VersionOf(const VersionEntry& entry) {
  StreamVersion version;
  version.version = entry.version;
  version.snapshot = entry.snapshot;
  version.bytes = entry.bytes;
  version.stored_bytes = entry.stored;
  version.unix_time_ns = entry.unix_time_ns;
  version.whole = !entry.delta;
  version.shape = entry.shape;
  return version;
}

uint64_t DataSeed() {
  return Seed(base::ChecksumKind::kStreamData, 0, 0);
}

}  // namespace quire::stream
