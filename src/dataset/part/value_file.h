/// The values of a rank in the format `pointer`: one after another in a file, each with its size
/// and a checksum that is bound to its place.
///
/// Layer      dataset
/// Source     FilterKV, CMU-PDL-19-104, section 3.2 (simple data indirection)
/// Encoding   docs/format/dataset.md
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <string>

#include "io/files/file_system.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::dataset {

/// The place of a value: 12 bytes, as in the paper.
struct ValuePointer {
  uint32_t rank = 0;
  uint64_t offset = 0;
};
constexpr size_t kPointerBytes = 12;
std::string EncodePointer(const ValuePointer& pointer);
/// Decodes a pointer from kPointerBytes `bytes`.
ValuePointer DecodePointer(Slice bytes);

/// Returns the seed of the value at `offset` in the file of `rank` of the dataset `id`.
uint64_t ValueSeed(uint64_t id, uint32_t rank, uint64_t offset);
/// Appends the bytes of a value.
void EncodeValue(Slice value, uint64_t seed, std::string* to);
/// Reads the value at `offset`; `end` is where the file ended when its epoch was complete.
///
/// Errors  kCorruption
/// Cost    one read of 4 KiB, and a second one if the value is longer
Status ReadValue(const io::File& file, uint64_t seed, uint64_t offset, uint64_t end,
                 std::string* value);

}  // namespace quire::dataset
