#include "log/record.h"

#include <cstddef>
#include <cstring>
#include <string>

#include "base/core/check.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "io/memory/streaming_stores.h"

namespace quire::log {
namespace {

static_assert(offsetof(RecordHeader, prev) == 8);
static_assert(offsetof(RecordHeader, value_size) == kRecordCoveredFrom);

// Sizes that the type demands, so that a walk over arbitrary bytes hashes few of them.
bool PlausibleSizes(const RecordHeader& header) {
  switch (header.type) {
    case RecordType::kPut:
    case RecordType::kRangeDelete: return true;
    case RecordType::kDelete: return header.value_size == 0;
    case RecordType::kValueRef: return header.value_size == sizeof(ValueRef);
    case RecordType::kBatchBegin:
      return header.value_size == sizeof(BatchExtent) && header.key_size_minus_1 == 0 &&
             BatchDistance(header) == 0;
    case RecordType::kUpdate: return false;
  }
  return false;
}

}  // namespace

uint64_t ValueChecksum(Slice value, uint64_t segment_id, uint64_t offset) {
  return base::Checksum(value, ValueChecksumSeed(segment_id, offset));
}

uint64_t ValueChecksumSeed(uint64_t segment_id, uint64_t offset) {
  return base::ChecksumSeed(base::ChecksumKind::kValue, segment_id, offset);
}

void EncodeHeader(char* to, RecordType type, uint64_t key_size, uint64_t value_size, uint32_t batch,
                  uint64_t checksum) {
  QUIRE_CHECK(key_size - 1 < kKeyBytesMax && value_size <= kValueBytesMax);
  base::StoreLe<uint64_t>(to, checksum);
  // prev 0 and value_size, then batch, key_size_minus_1, type and flags 0: two stores.
  base::StoreLe<uint64_t>(to + 8, value_size << 32);
  base::StoreLe<uint64_t>(to + 16, batch | (key_size - 1) << 32 |
                                       uint64_t{static_cast<uint8_t>(type)} << 48);
}

namespace {

// `to` may lie in a mapped file. The compiler may join stores that follow each other.
void StoreHeader(char* to, RecordType type, uint64_t key_size, uint64_t value_size, uint32_t batch,
                 uint64_t checksum) {
  if (io::InOnePage(to, sizeof(RecordHeader))) [[likely]] {
    return EncodeHeader(to, type, key_size, value_size, batch, checksum);
  }
  char header[sizeof(RecordHeader)];
  EncodeHeader(header, type, key_size, value_size, batch, checksum);
  io::StoreByPages(to, header, sizeof header);
}

}  // namespace

void EncodeRecord(char* to, RecordType type, Slice key, Slice value, uint32_t batch,
                  uint64_t checksum) {
  StoreHeader(to, type, key.size(), value.size(), batch, checksum);
  // The seal, if it is one, stands before anything of the rest does.
  std::atomic_signal_fence(std::memory_order_release);
  const uint64_t size = RecordSize(key.size(), value.size());
  base::StoreLe<uint64_t>(to + size - 8, 0);  // the padding, before what may overlap it
  io::StoreByPages(to + sizeof(RecordHeader), key.data(), key.size());
  io::StoreByPages(to + sizeof(RecordHeader) + key.size(), value.data(), value.size());
}

uint64_t BegunSeal(uint64_t size, uint64_t generation, uint64_t offset) {
  if (size < kSealedBytesMin || size > kSealedBytesMax) return 0;
  char bytes[sizeof size];
  base::StoreLe(bytes, size);
  return base::Checksum(Slice(bytes, sizeof bytes),
                        base::ChecksumSeed(base::ChecksumKind::kLogBegun, generation, offset));
}

void EncodeBegun(char* to, uint64_t size, uint64_t seal) {
  StoreHeader(to, RecordType::kPut, 1, size - sizeof(RecordHeader) - 1, 0, seal);
  std::atomic_signal_fence(std::memory_order_release);
}

uint64_t RecordChecksum(const char* at, uint64_t generation, uint64_t offset) {
  const RecordHeader* header = HeaderAt(at);
  const size_t covered = sizeof(RecordHeader) - kRecordCoveredFrom + header->key_size_minus_1 + 1 +
                         header->value_size;
  return base::Checksum(
      Slice(at + kRecordCoveredFrom, covered),
      base::ChecksumSeed(base::ChecksumKind::kLogRecord, generation, offset));
}

uint64_t ValueRecordChecksum(const char* at, uint64_t value_checksum, uint64_t generation,
                             uint64_t offset) {
  char checksum[sizeof value_checksum];
  base::StoreLe(checksum, value_checksum);
  const Slice head(at + kRecordCoveredFrom, sizeof(RecordHeader) - kRecordCoveredFrom);
  return base::ChecksumParts(
      head, KeyOf(at), Slice(checksum, sizeof checksum),
      base::ChecksumSeed(base::ChecksumKind::kLogRecord, generation, offset));
}

Status KeySizeError(uint64_t size) {
  return Status(Code::kInvalidArgument, "a key of " + std::to_string(size) +
                                            " bytes; keys have 1 to " +
                                            std::to_string(kKeyBytesMax));
}

bool PlausibleRecord(const char* bytes, uint64_t offset, uint64_t end, uint64_t* size) {
  if (offset % 8 != 0 || offset > end || end - offset < sizeof(RecordHeader)) return false;
  const RecordHeader& header = *HeaderAt(bytes + offset);
  if (header.flags > kPredecessorFlag || !PlausibleSizes(header)) return false;
  if (header.flags == kPredecessorFlag && header.batch == 0) return false;
  const uint64_t distance = uint64_t{header.batch} * 8;
  if (distance > offset) return false;
  *size = SizeOf(bytes + offset);
  if (*size > end - offset) return false;
  return BatchDistance(header) == 0 ||
         HeaderAt(bytes + offset - distance)->type == RecordType::kBatchBegin;
}

bool ValidRecord(const char* bytes, uint64_t offset, uint64_t end, uint64_t generation,
                 uint64_t* size) {
  return PlausibleRecord(bytes, offset, end, size) &&
         HeaderAt(bytes + offset)->checksum == RecordChecksum(bytes + offset, generation, offset);
}

}  // namespace quire::log
