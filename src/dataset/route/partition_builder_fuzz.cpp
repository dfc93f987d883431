// Arbitrary bytes as the entries of a batch, with marks or without: taken whole or not at all, and
// what is taken is found again in the part, under the ranks that the marks name.
//
// Input: one byte of choices, one byte (who sent it), then the entries. Choices: bits 0 and 1 the
// format, bit 2 whether there are marks.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/core/check.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "base/threads/epoch.h"
#include "dataset/part/part_reader.h"
#include "dataset/route/mute_exchange_testing.h"
#include "dataset/route/partition_builder.h"
#include "io/sim/sim_file_system.h"

namespace quire::dataset {
namespace {

constexpr uint64_t kId = 7;
constexpr uint64_t kAttempt = 9;

// The entries of a batch, read one after another as docs/format/message-dataset.md specifies.
struct Told {
  bool whole = false;
  uint64_t count = 0;
  std::map<std::pair<std::string, uint32_t>, std::string> values;  ///< formats that have keys
  std::set<std::pair<uint64_t, uint32_t>> hashes;
};

Told Read(DatasetFormat format, uint32_t sender, bool marked, Slice entries) {
  Told told;
  for (; !entries.empty(); ++told.count) {
    uint32_t source = sender;
    base::ByteReader reader(entries);
    if (uint16_t mark = 0; marked) {
      if (!reader.Fixed(&mark) || mark >= 2 * kGridWidth) return told;
      source = (sender / kGridWidth + mark / kGridWidth) * kGridWidth + mark % kGridWidth;
    }
    entries = reader.rest();
    const auto entry = TakeEntry(format, &entries);
    if (source >= kGridSize || !entry.has_value()) return told;
    told.hashes.emplace(entry->hash, source);
    if (HasKeys(format)) told.values[{std::string(entry->key), source}] = entry->value;
  }
  told.whole = true;
  return told;
}

void ExpectFound(PartReader& part, const Told& told, DatasetFormat format) {
  for (const auto& [hash, source] : told.hashes) {
    if (HasKeys(format)) break;
    std::vector<uint32_t> ranks;
    QUIRE_CHECK(part.FindRanks(hash, &ranks).ok());
    QUIRE_CHECK(std::find(ranks.begin(), ranks.end(), source) != ranks.end());
  }
  for (const auto& pair : told.values) {
    const std::string& key = pair.first.first;
    bool found = false;
    const auto take = [&](uint32_t rank, Slice stored) {
      if (rank != pair.first.second) return Status();
      QUIRE_CHECK(!found && stored == Slice(pair.second));
      found = true;
      return Status();
    };
    QUIRE_CHECK(part.Get(key, base::HashKey(key), true, take).ok() && found);
  }
}

void Run(DatasetFormat format, uint32_t sender, bool marked, Slice entries) {
  const std::unique_ptr<io::SimFileSystem> fs = io::NewSimFileSystem();
  PartWriter::Options options;
  options.fs = fs.get();
  options.directory = "";
  options.id = kId;
  options.rank = kGridRank;
  const auto writer = PartWriter::Open(options, {});
  QUIRE_CHECK(writer.ok() && (*writer)->Prepare().ok());
  MuteExchange exchange(kGridRank, kGridSize);
  const auto queue = std::make_shared<SerialQueue>(nullptr, &exchange);
  DatasetOptions dataset;
  dataset.format = format;
  dataset.partition_bytes = 64 << 10;
  PartitionBuilder builder(dataset, Route(kGridRank, kGridSize, 2), queue.get(), writer->get());
  const Status status = builder.Take(sender, marked, entries);
  const Told told = Read(format, sender, marked, entries);
  QUIRE_CHECK(status.code() == (told.whole ? Code::kOk : Code::kCorruption));
  QUIRE_CHECK(builder.received() == (told.whole ? told.count : 0));
  builder.Finish();
  QUIRE_CHECK(queue->status().ok() && (*writer)->Seal(1, kAttempt).ok());

  const auto records = ReadIndex(*fs, "", kId, kGridRank);
  QUIRE_CHECK(records.ok() && records->size() == 1);
  PartReader::Options part;
  auto file = fs->Open(PartPath("", kGridRank), io::FileOpenMode::kRead);
  QUIRE_CHECK(file.ok());
  part.part = std::move(*file);
  part.record = (*records)[0];
  part.rank_count = kGridSize;
  part.cache = table::NewBlockCache(1 << 20);
  part.held = std::make_shared<std::atomic<uint64_t>>(0);
  part.held_max = 1 << 20;
  const auto reader = PartReader::Open(part);
  QUIRE_CHECK(reader.ok() && (*reader)->Verify().ok());
  if (told.whole) return ExpectFound(**reader, told, format);
  QUIRE_CHECK(part.record.pair_count == 0 && (*reader)->table_count() == 0);
}

}  // namespace
}  // namespace quire::dataset

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quire::DatasetFormat;
  if (size < 2) return 0;
  constexpr DatasetFormat kFormats[] = {DatasetFormat::kBase, DatasetFormat::kPointer,
                                        DatasetFormat::kCuckoo, DatasetFormat::kRibbon};
  // Exactly this size: the sanitizer sees every access beyond it.
  const std::vector<char> entries(data + 2, data + size);
  quire::dataset::Run(kFormats[data[0] & 3], data[1] % quire::dataset::kGridSize,
                      (data[0] & 4) != 0, quire::Slice(entries.data(), entries.size()));
  quire::base::EpochCollect();
  return 0;
}
