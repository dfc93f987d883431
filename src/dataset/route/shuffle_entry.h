/// The entry that is sent for one pair, in each format.
///
/// Layer      dataset
/// Source     FilterKV, CMU-PDL-19-104, section 3 and figure 3
/// Encoding   docs/format/message-dataset.md
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "quire/dataset.h"
#include "quire/slice.h"

namespace quire::dataset {

/// A batch begins with the attempt, u64, to which it belongs.
constexpr size_t kBatchHeadBytes = 8;
/// On a first hop of two, if a function of the program picks partitions, each entry begins with the
/// number of its partition: a rank that forwards it cannot derive it from the hash.
constexpr size_t kPartitionBytes = 4;
/// On a second hop each entry begins with a mark (Route::MarkOf).
constexpr size_t kMarkBytes = 2;

/// Returns whether entries contain keys, and not only their hashes.
constexpr bool HasKeys(DatasetFormat format) {
  return format == DatasetFormat::kBase || format == DatasetFormat::kPointer;
}

/// One entry: the hash of its key; if the format has keys, also the key and its value or pointer.
struct ShuffleEntry {
  uint64_t hash = 0;
  Slice key;
  Slice value;
};

/// The size of an entry, and its bytes.
uint64_t EntryBytes(DatasetFormat format, const ShuffleEntry& entry);
void PutEntry(DatasetFormat format, const ShuffleEntry& entry, std::string* to);
/// Removes an entry from the front of `bytes` and returns it; none: the bytes are no entry. Its
/// slices point into `bytes`.
std::optional<ShuffleEntry> TakeEntry(DatasetFormat format, Slice* bytes);

}  // namespace quire::dataset
