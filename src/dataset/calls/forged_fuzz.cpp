// Arbitrary bytes as each file that says what is where in a dataset, under checksums that are made
// right first: what lies behind them is reached, and what is accepted is within bounds and comes
// out the same after encoding.
//
// Input: one byte (which), then the bytes.
#include <cstdint>
#include <string>
#include <vector>

#include "base/core/check.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "dataset/part/files.h"
#include "filter/rank_map/rank_map.h"
#include "runtime/checksummed_text.h"

namespace quire::dataset {
namespace {

constexpr uint64_t kId = 7;
constexpr uint32_t kRank = 3;
constexpr uint64_t kAttempt = 9;
constexpr uint64_t kOffset = 1 << 20;
constexpr size_t kFieldBytes = kRecordBytes - 8;

// Appends the checksum of bytes at a place of a dataset's files: docs/format/dataset.md.
std::string Forge(Slice bytes, uint64_t file, uint64_t place) {
  std::string forged(bytes);
  const uint64_t seed = base::ChecksumSeed(base::ChecksumKind::kDataset, file, place);
  base::PutFixed(&forged, base::Checksum(bytes, seed));
  return forged;
}

void TakeEpochs(Slice bytes) {
  const auto epochs = DecodeEpochs(Forge(bytes, kId, 0), kId, "epochs");
  QUIRE_CHECK(epochs.status().message().find("checksum") == std::string::npos);
  if (!epochs.ok()) return;
  for (size_t i = 0; i < epochs->size(); ++i) {
    QUIRE_CHECK((*epochs)[i].rank_count > 0);
    QUIRE_CHECK((*epochs)[i].rank_count <= filter::kRankCountMax);
    QUIRE_CHECK(i == 0 || (*epochs)[i - 1].number < (*epochs)[i].number);
  }
  const auto again = DecodeEpochs(EncodeEpochs(*epochs, kId), kId, "epochs");
  QUIRE_CHECK(again.ok() && *again == *epochs);
}

void TakeIndex(Slice bytes) {
  std::string index;
  uint64_t count = 0;
  for (; bytes.size() >= kFieldBytes; bytes.remove_prefix(kFieldBytes), ++count) {
    index += Forge(bytes.substr(0, kFieldBytes), kId + 1 + kRank, count);
  }
  const std::vector<PartRecord> records = DecodeIndex(index, kId, kRank);
  QUIRE_CHECK(records.size() <= count);
  for (const PartRecord& record : records) {
    QUIRE_CHECK(record.end() >= record.list_offset && record.at < count);
    const std::string before(record.at * kRecordBytes, '\0');
    const auto again = DecodeIndex(before + EncodePart(record, kId, kRank), kId, kRank);
    QUIRE_CHECK(again.size() == 1 && again[0] == record);
  }
}

void TakeList(Slice bytes) {
  const std::string forged = Forge(bytes, kAttempt, UINT64_MAX);
  const auto list = DecodeList(forged, kAttempt, kOffset, "list");
  QUIRE_CHECK(list.status().message().find("is damaged") == std::string::npos);
  if (!list.ok()) return;
  for (const std::vector<Extent>& extents : {list->tables, list->maps}) {
    for (const Extent& extent : extents) {
      QUIRE_CHECK(extent.offset <= kOffset && extent.bytes <= kOffset - extent.offset);
    }
  }
  QUIRE_CHECK(EncodeList(*list, kAttempt) == forged);
}

void TakeDescriptor(Slice bytes) {
  std::string text(bytes);
  runtime::AppendChecksum(&text);
  const auto descriptor = DecodeDescriptor(text, "DATASET");
  if (!descriptor.ok()) return;
  QUIRE_CHECK(descriptor->id != 0);
  const auto again = DecodeDescriptor(EncodeDescriptor(*descriptor), "DATASET");
  QUIRE_CHECK(again.ok() && again->id == descriptor->id && again->format == descriptor->format);
}

}  // namespace
}  // namespace quire::dataset

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quire::Slice;
  if (size == 0) return 0;
  const Slice bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr void (*kTakers[])(Slice) = {quire::dataset::TakeEpochs, quire::dataset::TakeIndex,
                                        quire::dataset::TakeList, quire::dataset::TakeDescriptor};
  kTakers[data[0] % 4](bytes);
  return 0;
}
