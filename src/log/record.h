/// The one record encoding: 24-byte header, key, value, padding to 8. Used in log segments, value
/// segments and messages.
///
/// Layer      log
/// Source     docs/decisions/0002-log-is-the-memtable.md; LevelDB's and RocksDB's logs for the
///            failure cases
/// Encoding   docs/format/record.md
/// Threads    `prev` is atomic and may change under readers; everything else is immutable once
///            published
#pragma once

#include <atomic>
#include <cstdint>

#include "quire/slice.h"
#include "quire/status.h"

namespace quire::log {

enum class RecordType : uint8_t {
  kPut = 1,          ///< key -> value
  kDelete = 2,       ///< tombstone of key; no value
  kRangeDelete = 3,  ///< tombstone of [key, value)
  kValueRef = 4,     ///< key -> ValueRef (32 bytes) into a value segment
  kBatchBegin = 5,   ///< key: one NUL; value: u32 members, u32 bytes of all; prev: commit flag
  kUpdate = 6,       ///< on the wire only: key, value = u32 function id and argument
};

/// The header as it lies in memory, on disk (little-endian) and on the wire.
struct RecordHeader {
  uint64_t checksum;           ///< XXH3-64 of the bytes after `prev`, seeded by (kLogRecord,
                               ///< generation, offset)
  std::atomic<uint32_t> prev;  ///< offset/8 of the key's next older version here, 0: none. Not
                               ///< covered by the checksum.
  uint32_t value_size;
  uint32_t batch;  ///< distance/8 back to the kBatchBegin record (0: not in a batch), or, with
                   ///< kPredecessorFlag, to the predecessor
  uint16_t key_size_minus_1;
  RecordType type;
  uint8_t flags;  ///< 0 or kPredecessorFlag
};
static_assert(sizeof(RecordHeader) == 24);

/// The record is in no batch, and names its predecessor: a record of this segment that was finished
/// before this one was begun. If the predecessor is missing, the storage lost it.
constexpr uint8_t kPredecessorFlag = 1;

/// The offset of the first byte that the checksum covers.
constexpr uint64_t kRecordCoveredFrom = 12;
constexpr uint64_t kKeyBytesMax = 64 * 1024;
constexpr uint64_t kValueBytesMax = 0xFFFFFFFFull;
/// Returns whether a key may have this size.
constexpr bool IsKeySize(uint64_t size) {
  return size != 0 && size <= kKeyBytesMax;
}
/// Returns kInvalidArgument for a key of another size.
Status KeySizeError(uint64_t size);

/// Returns the bytes that a record takes in a segment.
constexpr uint64_t RecordSize(uint64_t key_size, uint64_t value_size) {
  return (sizeof(RecordHeader) + key_size + value_size + 7) & ~uint64_t{7};
}

/// Returns a record in mapped memory. `at` is 8-byte aligned; the caller has checked that it lies
/// within the segment.
inline const RecordHeader* HeaderAt(const char* at) {
  return reinterpret_cast<const RecordHeader*>(at);
}
inline RecordHeader* HeaderAt(char* at) { return reinterpret_cast<RecordHeader*>(at); }
/// Returns the record's key.
inline Slice KeyOf(const char* at) {
  return Slice(at + sizeof(RecordHeader), size_t{HeaderAt(at)->key_size_minus_1} + 1);
}
/// Returns the record's value.
inline Slice ValueOf(const char* at) {
  const RecordHeader* header = HeaderAt(at);
  return Slice(at + sizeof(RecordHeader) + header->key_size_minus_1 + 1, header->value_size);
}
/// Returns the bytes that the record takes.
inline uint64_t SizeOf(const char* at) {
  const RecordHeader* header = HeaderAt(at);
  return RecordSize(uint64_t{header->key_size_minus_1} + 1, header->value_size);
}

/// Returns distance/8 back to the kBatchBegin record of its batch; 0: not in a batch.
inline uint32_t BatchDistance(const RecordHeader& header) {
  return (header.flags & kPredecessorFlag) != 0 ? 0 : header.batch;
}
/// Returns distance/8 back to its predecessor; 0: it names none.
inline uint32_t PredecessorDistance(const RecordHeader& header) {
  return (header.flags & kPredecessorFlag) != 0 ? header.batch : 0;
}

/// The value of a kBatchBegin record.
struct BatchExtent {
  uint32_t count;  ///< members
  uint32_t bytes;  ///< of all members, which follow at once
};
static_assert(sizeof(BatchExtent) == 8);

/// The place of a separated value. 32 bytes, little-endian: the value of a kValueRef record and of
/// such table entries.
struct ValueRef {
  uint64_t segment_id;  ///< val-<id>.seg, increasing per rank, unless an older state is restored
  uint64_t offset;      ///< of the record's header in the segment file
  uint64_t checksum;    ///< ValueChecksum(value, segment_id, offset): verified on every read
  uint32_t value_size;
  uint32_t key_size;  ///< so that the value's place follows without reading the record's header
};
static_assert(sizeof(ValueRef) == 32);

/// Returns the checksum of a separated value whose record lies at `offset` of value segment
/// `segment_id`.
uint64_t ValueChecksum(Slice value, uint64_t segment_id, uint64_t offset);

/// Returns the seed of that checksum, for a value that is hashed piece by piece.
uint64_t ValueChecksumSeed(uint64_t segment_id, uint64_t offset);

/// Writes a record's header at `to` (any alignment) with prev 0.
void EncodeHeader(char* to, RecordType type, uint64_t key_size, uint64_t value_size, uint32_t batch,
                  uint64_t checksum = 0);
/// Writes a record at `to` (RecordSize bytes, zero padding; any alignment) with prev 0. `checksum`
/// stands in the header while the rest is written: 0, or the BegunSeal of the record's bytes.
void EncodeRecord(char* to, RecordType type, Slice key, Slice value, uint32_t batch,
                  uint64_t checksum = 0);

/// Only pieces of a segment from the first to the second size have a seal: smaller ones cost a
/// replay little, and no header can claim more.
constexpr uint64_t kSealedBytesMin = 128;
constexpr uint64_t kSealedBytesMax = kValueBytesMax / 8 * 8;
/// Returns the seal of the `size` bytes at `offset` of the segment with `generation`; 0: they have
/// none. A header contains it instead of a checksum while the bytes that the header claims are
/// being written. A replay that finds a seal skips all these bytes: their writer died, and they may
/// look like anything.
uint64_t BegunSeal(uint64_t size, uint64_t generation, uint64_t offset);
/// Writes a header with the seal, which is not 0, at `to`: for a piece of `size` bytes, a multiple
/// of 8, in which records will lie.
void EncodeBegun(char* to, uint64_t size, uint64_t seal);
/// Makes the encoded record at `record`, which is in no batch, name a predecessor: the record that
/// lies 8 * `distance` bytes before it. Call it before the checksum is computed.
inline void SetPredecessor(char* record, uint32_t distance) {
  HeaderAt(record)->batch = distance;
  HeaderAt(record)->flags = kPredecessorFlag;
}
/// Returns the checksum of the record at `at` when it lies at `offset` of the segment with
/// `generation`.
uint64_t RecordChecksum(const char* at, uint64_t generation, uint64_t offset);
/// Returns the checksum of a record in a value segment. The value enters through its own checksum,
/// so that it is hashed once. Reads header and key only.
uint64_t ValueRecordChecksum(const char* at, uint64_t value_checksum, uint64_t generation,
                             uint64_t offset);
/// Returns whether the header of a log record at `bytes + offset` is possible and the record lies
/// within [offset, end); then sets its size. Does not look at the checksum. Reads nothing outside
/// [bytes, bytes + end).
bool PlausibleRecord(const char* bytes, uint64_t offset, uint64_t end, uint64_t* size);
/// Returns whether the record is plausible and its checksum is right.
bool ValidRecord(const char* bytes, uint64_t offset, uint64_t end, uint64_t generation,
                 uint64_t* size);

}  // namespace quire::log
