#include "dataset/route/shuffle_entry.h"

#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "dataset/part/value_file.h"
#include "log/record.h"

namespace quire::dataset {

uint64_t EntryBytes(DatasetFormat format, const ShuffleEntry& entry) {
  if (!HasKeys(format)) return sizeof entry.hash;
  const auto sizes = base::VarintSize(entry.key.size()) + base::VarintSize(entry.value.size());
  return static_cast<uint64_t>(sizes) + entry.key.size() + entry.value.size();
}

void PutEntry(DatasetFormat format, const ShuffleEntry& entry, std::string* to) {
  if (!HasKeys(format)) return base::PutFixed(to, entry.hash);
  base::PutVarint(to, entry.key.size());
  base::PutVarint(to, entry.value.size());
  to->append(entry.key);
  to->append(entry.value);
}

std::optional<ShuffleEntry> TakeEntry(DatasetFormat format, Slice* bytes) {
  base::ByteReader reader(*bytes);
  ShuffleEntry entry;
  if (!HasKeys(format)) {
    if (!reader.Fixed(&entry.hash)) return std::nullopt;
  } else {
    uint64_t key_size = 0;
    uint64_t value_size = 0;
    if (!reader.Varint(&key_size) || !reader.Varint(&value_size) ||
        !reader.Bytes(key_size, &entry.key) || !reader.Bytes(value_size, &entry.value)) {
      return std::nullopt;
    }
    if (key_size == 0 || key_size > log::kKeyBytesMax || value_size > log::kValueBytesMax) {
      return std::nullopt;
    }
    if (format == DatasetFormat::kPointer && value_size != kPointerBytes) return std::nullopt;
    entry.hash = base::HashKey(entry.key);
  }
  *bytes = reader.rest();
  return entry;
}

}  // namespace quire::dataset
