// Arbitrary bytes as each file and message of a dataset: what is accepted is within bounds.
//
// Input: one byte (which), then the bytes.
#include <cstdint>
#include <optional>
#include <vector>

#include "base/core/check.h"
#include "base/text/coding.h"
#include "dataset/part/files.h"
#include "dataset/route/shuffle_entry.h"

namespace quire::dataset {
namespace {

constexpr uint64_t kId = 7;
constexpr uint32_t kRank = 3;
constexpr uint64_t kOffset = 1 << 20;

void TakeAll(DatasetFormat format, Slice bytes) {
  const char* const end = bytes.data() + bytes.size();
  while (!bytes.empty()) {
    const std::optional<ShuffleEntry> entry = TakeEntry(format, &bytes);
    if (!entry.has_value()) return;
    if (!HasKeys(format)) continue;
    QUIRE_CHECK(entry->value.data() + entry->value.size() <= end);
    QUIRE_CHECK(!entry->key.empty());
  }
}

void DecodeAsIs(Slice bytes) {
  static_cast<void>(DecodeList(bytes, kId, kOffset, "list"));
  static_cast<void>(DecodeEpochs(bytes, kId, "epochs"));
  static_cast<void>(DecodeIndex(bytes, kId, kRank));
  static_cast<void>(DecodeDescriptor(bytes, "DATASET"));
}

// Checksums keep arbitrary bytes out: arbitrary numbers under right ones.
void DecodeSealed(Slice bytes) {
  base::ByteReader reader(bytes);
  PartList list;
  for (Extent extent; reader.Fixed(&extent.offset) && reader.Fixed(&extent.bytes);) {
    (list.tables.size() <= list.maps.size() ? list.tables : list.maps).push_back(extent);
  }
  const auto decoded = DecodeList(EncodeList(list, kId), kId, kOffset, "list");
  for (const std::vector<Extent>& extents : {list.tables, list.maps}) {
    for (const Extent& extent : extents) {
      const bool within = extent.offset <= kOffset && extent.bytes <= kOffset - extent.offset;
      QUIRE_CHECK(within || !decoded.ok());
    }
  }
  PartRecord record;
  base::ByteReader fields(bytes);
  if (!fields.Fixed(&record.list_offset) || !fields.Fixed(&record.list_bytes)) return;
  for (const PartRecord& read : DecodeIndex(EncodePart(record, kId, kRank), kId, kRank)) {
    QUIRE_CHECK(read.end() >= read.list_offset);
  }
}

}  // namespace
}  // namespace quire::dataset

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const quire::Slice bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
      quire::dataset::TakeAll(quire::DatasetFormat::kBase, bytes);
      break;
    case 1:
      quire::dataset::TakeAll(quire::DatasetFormat::kPointer, bytes);
      break;
    case 2:
      quire::dataset::TakeAll(quire::DatasetFormat::kRibbon, bytes);
      break;
    case 3:
      quire::dataset::DecodeAsIs(bytes);
      break;
    default:
      quire::dataset::DecodeSealed(bytes);
  }
  return 0;
}
