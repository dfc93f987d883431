// Replay of arbitrary bytes as a log segment: it ends, touches nothing outside, and hands over only
// records that verify, in order.
//
// Input: bit 0 of the first byte: same boot or another; bit 1: whether a valid header page with the
// completion mark and watermark that follow is put before the rest. The rest: records; where it
// begins with "R", each record in it is given its checksum first, so that the walk gets past it.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/core/check.h"
#include "log/record.h"
#include "log/segment.h"

namespace quire::log {
namespace {

constexpr uint64_t kGeneration = 1;
constexpr size_t kBytesMax = 1 << 16;

// Gives plausible records their checksums, as if a writer had written them.
void Sign(char* data, uint64_t capacity) {
  uint64_t at = kSegmentHeaderBytes;
  uint64_t size = 0;
  while (at < capacity) {
    if (PlausibleRecord(data, at, capacity, &size)) {
      HeaderAt(data + at)->checksum = RecordChecksum(data + at, kGeneration, at);
      at += size;
    } else {
      at += 8;
    }
  }
}

void Run(const uint8_t* input, size_t size) {
  if (size < 2 || size > kBytesMax) return;
  const bool same_boot = (input[0] & 1) != 0;
  const bool marked = (input[0] & 2) != 0;
  const bool sign = input[1] == 'R';
  SegmentHeader header;
  header.generation = kGeneration;
  header.boot_id = 1;
  header.capacity = kSegmentHeaderBytes + (size + 7) / 8 * 8;
  std::vector<uint64_t> words(header.capacity / 8);
  char* const data = reinterpret_cast<char*>(words.data());
  EncodeSegmentHeader(header, data);
  std::memcpy(data + kSegmentHeaderBytes, input + 2, size - 2);
  if (sign) Sign(data, header.capacity);
  if (marked) MarkComplete(data, kGeneration, kSegmentHeaderBytes + input[1]);
  uint64_t end = kSegmentHeaderBytes;
  uint64_t taken = 0;
  const auto report = Replay({data}, header, same_boot ? 1 : 2, "fuzz",
                             [&](uint64_t offset, const char* record) {
                               uint64_t record_bytes = 0;
                               QUIRE_CHECK(offset >= end && record == data + offset);
                               QUIRE_CHECK(ValidRecord(data, offset, header.capacity, kGeneration,
                                                       &record_bytes));
                               end = offset + record_bytes;
                               taken += HeaderAt(record)->type != RecordType::kBatchBegin;
                               return Status();
                             });
  if (!report.ok()) return;
  QUIRE_CHECK(report->records == taken && report->end == end && end <= header.capacity);
}

}  // namespace
}  // namespace quire::log

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quire::log::Run(data, size);
  return 0;
}
