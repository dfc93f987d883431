/// The frame of a table file's parts: identity, footer, properties, part checksums.
///
/// Layer      table
/// Encoding   docs/format/table.md
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/hash/hash.h"
#include "io/files/file_system.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "table/entry_iterator.h"
#include "table/table.h"

namespace quire::table {

constexpr uint32_t kTableVersion = 1;
constexpr size_t kFooterBytes = 80;
constexpr size_t kChecksumBytes = sizeof(uint64_t);
/// Behind a data block's contents: their form of compression, and a checksum.
constexpr size_t kBlockTrailerBytes = 1 + kChecksumBytes;
/// The smallest data block: a byte of contents, which may be compressed, and the trailer.
constexpr uint64_t kStoredBlockBytesMin = 1 + kBlockTrailerBytes;
/// The smallest entry of SSIndex.
constexpr uint64_t kIndexEntryBytesMin = 3;

constexpr uint32_t kFlagUncheckedBlocks = 1;
constexpr uint32_t kFlagFilter = 2;

struct Footer {
  uint32_t flags = 0;
  uint64_t ssid = 0;
  uint64_t file_id = 0;
  uint64_t data_bytes = 0;
  uint64_t index_bytes = 0;
  uint64_t filter_bytes = 0;
  uint64_t properties_bytes = 0;
  uint64_t block_count = 0;

  bool checked_blocks() const { return (flags & kFlagUncheckedBlocks) == 0; }
  bool has_filter() const { return (flags & kFlagFilter) != 0; }
  uint64_t index_offset() const { return data_bytes; }
  uint64_t filter_offset() const { return data_bytes + index_bytes; }
  uint64_t properties_offset() const { return filter_offset() + filter_bytes; }
  uint64_t file_bytes() const { return properties_offset() + properties_bytes + kFooterBytes; }
};

/// Returns the identity that binds the checksums of a table's parts to the table.
uint64_t TableIdentity(uint64_t file_id, uint64_t ssid);

/// Encodes the footer, which stands at file_bytes() - kFooterBytes.
std::string EncodeFooter(const Footer& footer);
/// Decodes the footer of the table `ssid` from the last kFooterBytes of a file of `file_bytes`.
/// Errors: kCorruption, kUnsupported.
Result<Footer> DecodeFooter(Slice bytes, uint64_t file_bytes, uint64_t ssid);

/// Encodes the properties part without its checksum. It does not contain file_bytes, ssid and
/// file_id of `info`, which are in the footer.
std::string EncodeProperties(const TableInfo& info, const std::vector<RangeTombstone>& tombstones);
/// Decodes the properties part; false: malformed.
bool DecodeProperties(Slice bytes, TableInfo* info, std::vector<RangeTombstone>* tombstones);

/// Returns the checksum of a part that begins at `offset`.
inline uint64_t PartChecksum(base::ChecksumKind kind, uint64_t identity, uint64_t offset,
                             Slice part) {
  return base::Checksum(part, base::ChecksumSeed(kind, identity, offset));
}
/// Reads a part with its checksum to `to` (`size` bytes), and verifies it. `name`, as in "SSIndex",
/// is for the message.
Status ReadPart(const io::File& file, base::ChecksumKind kind, uint64_t identity, uint64_t offset,
                uint64_t size, char* to);
/// Returns the kCorruption of `what` at `offset` in the file: why, and what to do.
Status Damaged(const io::File& file, const std::string& what, uint64_t offset, const char* why);

}  // namespace quire::table
