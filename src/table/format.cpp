#include "table/format.h"

#include "base/text/coding.h"

namespace quire::table {
namespace {

constexpr char kMagic[] = "QUIRESST";
constexpr size_t kMagicBytes = 8;
constexpr size_t kFooterChecked = kFooterBytes - kChecksumBytes;

uint64_t FooterChecksum(Slice checked, uint64_t ssid, uint64_t file_bytes) {
  return PartChecksum(base::ChecksumKind::kFooter, ssid, file_bytes - kFooterBytes, checked);
}

Status BadFooter(const std::string& why) {
  return Status(Code::kCorruption, "the footer " + why);
}

// Whether the sizes can be those of a file of `file_bytes`; sums cannot overflow here.
bool PlausibleSizes(const Footer& footer, uint64_t file_bytes) {
  uint64_t rest = file_bytes - kFooterBytes;
  for (const uint64_t part :
       {footer.data_bytes, footer.index_bytes, footer.filter_bytes, footer.properties_bytes}) {
    if (part > rest) return false;
    rest -= part;
  }
  if (rest != 0 || footer.index_bytes < kChecksumBytes ||
      footer.properties_bytes < kChecksumBytes) {
    return false;
  }
  if (footer.has_filter() ? footer.filter_bytes < kChecksumBytes : footer.filter_bytes != 0) {
    return false;
  }
  return footer.block_count <= footer.data_bytes / kStoredBlockBytesMin &&
         footer.block_count <= footer.index_bytes / kIndexEntryBytesMin;
}

void PutTombstones(const std::vector<RangeTombstone>& tombstones, std::string* to) {
  base::PutVarint(to, tombstones.size());
  for (const RangeTombstone& tombstone : tombstones) {
    base::PutLengthPrefixed(to, tombstone.begin);
    base::PutLengthPrefixed(to, tombstone.end);
    base::PutVarint(to, tombstone.lsn);
  }
}

bool ReadSegments(base::ByteReader* reader, std::vector<SegmentUse>* segments) {
  uint64_t count = 0;
  if (!reader->Varint(&count) || count > reader->rest().size() / 2) return false;
  for (uint64_t i = 0; i < count; ++i) {
    SegmentUse use;
    if (!reader->Varint(&use.segment_id) || !reader->Varint(&use.bytes)) return false;
    if (!segments->empty() && segments->back().segment_id >= use.segment_id) return false;
    segments->push_back(use);
  }
  return true;
}

bool ReadTombstones(base::ByteReader* reader, std::vector<RangeTombstone>* tombstones) {
  uint64_t count = 0;
  if (!reader->Varint(&count) || count > reader->rest().size() / 3) return false;
  for (uint64_t i = 0; i < count; ++i) {
    Slice begin;
    Slice end;
    uint64_t lsn = 0;
    if (!reader->LengthPrefixed(&begin) || !reader->LengthPrefixed(&end) || !reader->Varint(&lsn)) {
      return false;
    }
    if (begin >= end) return false;
    tombstones->push_back({std::string(begin), std::string(end), lsn});
  }
  return true;
}

}  // namespace

uint64_t TableIdentity(uint64_t file_id, uint64_t ssid) {
  return base::ChecksumSeed(base::ChecksumKind::kFooter, file_id, ssid);
}

std::string EncodeFooter(const Footer& footer) {
  std::string bytes(kMagic, kMagicBytes);
  base::PutFixed(&bytes, kTableVersion);
  base::PutFixed(&bytes, footer.flags);
  for (const uint64_t field : {footer.ssid, footer.file_id, footer.data_bytes, footer.index_bytes,
                               footer.filter_bytes, footer.properties_bytes, footer.block_count}) {
    base::PutFixed(&bytes, field);
  }
  base::PutFixed(&bytes, FooterChecksum(bytes, footer.ssid, footer.file_bytes()));
  return bytes;
}

Result<Footer> DecodeFooter(Slice bytes, uint64_t file_bytes, uint64_t ssid) {
  base::ByteReader reader(bytes);
  Footer footer;
  Slice magic;
  uint32_t version = 0;
  uint64_t checksum = 0;
  reader.Bytes(kMagicBytes, &magic);
  reader.Fixed(&version);
  reader.Fixed(&footer.flags);
  for (uint64_t* field :
       {&footer.ssid, &footer.file_id, &footer.data_bytes, &footer.index_bytes,
        &footer.filter_bytes, &footer.properties_bytes, &footer.block_count, &checksum}) {
    reader.Fixed(field);
  }
  if (!reader.ok() || !reader.rest().empty()) return BadFooter("has a wrong size");
  if (magic != Slice(kMagic, kMagicBytes)) return BadFooter("is not that of an SSTable");
  if (checksum != FooterChecksum(bytes.substr(0, kFooterChecked), footer.ssid, file_bytes)) {
    return BadFooter("is damaged (checksum)");
  }
  if (version != kTableVersion) {
    return Status(Code::kUnsupported, "the format has version " + std::to_string(version) +
                                          ", this build reads version " +
                                          std::to_string(kTableVersion) + ": use a newer Quire");
  }
  if (footer.ssid != ssid) {
    return BadFooter("belongs to SSID " + std::to_string(footer.ssid) + ", not " +
                     std::to_string(ssid));
  }
  if ((footer.flags & ~(kFlagUncheckedBlocks | kFlagFilter)) != 0) {
    return BadFooter("has unknown flags");
  }
  if (!PlausibleSizes(footer, file_bytes)) return BadFooter("has impossible sizes");
  return footer;
}

std::string EncodeProperties(const TableInfo& info, const std::vector<RangeTombstone>& tombstones) {
  std::string bytes;
  for (const uint64_t field : {info.entry_count, info.key_count, info.tombstone_count,
                               info.raw_bytes, info.min_lsn, info.max_lsn}) {
    base::PutVarint(&bytes, field);
  }
  base::PutLengthPrefixed(&bytes, info.smallest_key);
  base::PutLengthPrefixed(&bytes, info.largest_key);
  base::PutVarint(&bytes, info.segments.size());
  for (const SegmentUse& use : info.segments) {
    base::PutVarint(&bytes, use.segment_id);
    base::PutVarint(&bytes, use.bytes);
  }
  PutTombstones(tombstones, &bytes);
  return bytes;
}

bool DecodeProperties(Slice bytes, TableInfo* info, std::vector<RangeTombstone>* tombstones) {
  base::ByteReader reader(bytes);
  for (uint64_t* field : {&info->entry_count, &info->key_count, &info->tombstone_count,
                          &info->raw_bytes, &info->min_lsn, &info->max_lsn}) {
    reader.Varint(field);
  }
  Slice smallest;
  Slice largest;
  if (!reader.LengthPrefixed(&smallest) || !reader.LengthPrefixed(&largest)) return false;
  info->smallest_key = smallest;
  info->largest_key = largest;
  if (!ReadSegments(&reader, &info->segments) || !ReadTombstones(&reader, tombstones)) return false;
  info->range_tombstone_count = tombstones->size();
  return reader.rest().empty();
}

Status ReadPart(const io::File& file, base::ChecksumKind kind, uint64_t identity, uint64_t offset,
                uint64_t size, char* to) {
  QUIRE_RETURN_IF_ERROR(file.ReadAt(offset, size, to));
  const Slice part(to, size - kChecksumBytes);
  if (base::LoadLe<uint64_t>(to + part.size()) != PartChecksum(kind, identity, offset, part)) {
    return Damaged(file, "a part", offset, "its checksum does not match");
  }
  return Status();
}

Status Damaged(const io::File& file, const std::string& what, uint64_t offset, const char* why) {
  return Status(Code::kCorruption,
                file.path() + ": " + what + " at offset " + std::to_string(offset) + ": " + why +
                    "; its keys cannot be read, others can; restore the file from a copy");
}

}  // namespace quire::table
