/// Segments of a test's own: their headers, and records in them.
///
/// Layer      log (tests)
/// Threads    pure functions
#pragma once

#include <cstdint>

#include "log/record.h"
#include "log/segment.h"

namespace quire::log {

constexpr uint64_t kGeneration = 0x1122334455667788;
constexpr uint64_t kCapacity = 64 * 1024;
constexpr char kPath[] = "/log-0.seg";

inline SegmentHeader HeaderFor(uint64_t boot_id, uint64_t generation = kGeneration) {
  SegmentHeader header;
  header.generation = generation;
  header.id = 3;
  header.base_lsn = 1'000'000;
  header.capacity = kCapacity;
  header.boot_id = boot_id;
  header.previous_generation = 7;
  header.previous_end_lsn = 999'000;
  header.owner_epoch = 5;
  return header;
}

/// What a record has.
struct Fields {
  RecordType type;
  Slice key;
  Slice value;
  uint32_t batch = 0;
  uint64_t predecessor = 0;  ///< its offset
};

/// A complete record at `offset`; the offset after it.
inline uint64_t Write(char* data, uint64_t generation, uint64_t offset, const Fields& fields) {
  EncodeRecord(data + offset, fields.type, fields.key, fields.value, fields.batch);
  if (fields.predecessor != 0) {
    SetPredecessor(data + offset, static_cast<uint32_t>((offset - fields.predecessor) / 8));
  }
  HeaderAt(data + offset)->checksum = RecordChecksum(data + offset, generation, offset);
  return offset + RecordSize(fields.key.size(), fields.value.size());
}

inline uint64_t Put(char* data, uint64_t generation, uint64_t offset, Slice key, Slice value) {
  return Write(data, generation, offset, {RecordType::kPut, key, value});
}

/// The same, by a writer that finished the record at `predecessor` before.
inline uint64_t PutAfter(char* data, uint64_t predecessor, uint64_t offset, Slice key,
                         Slice value) {
  return Write(data, kGeneration, offset, {RecordType::kPut, key, value, 0, predecessor});
}

}  // namespace quire::log
