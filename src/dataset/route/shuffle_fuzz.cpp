// Arbitrary bytes as batches that a rank receives, on a first hop or the last. Batches of another
// attempt are ignored. Entries to forward go, whole and in order, to their partitions, with a mark
// that names their sender. Entries that this rank does not forward are refused.
//
// Input: one byte of choices, one byte (the sender), then the batch. Choices: bits 0 and 1 the
// format, bit 2 whether it is the last hop. Bit 3: first the attempt is made right, and entries
// that no rank may send to this one, because their partitions are in other columns, are left out,
// so that more of a batch is forwarded.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/core/check.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "dataset/route/mute_exchange_testing.h"
#include "dataset/route/shuffle.h"
#include "io/sim/sim_file_system.h"

namespace quire::dataset {
namespace {

constexpr uint32_t kGridRanksMin = 2;
constexpr uint32_t kFirstHop = 1;
constexpr uint32_t kLastHop = 2;
constexpr uint32_t kNumber = 3;
constexpr uint64_t kAttempt = 9;

bool InColumn(uint32_t partition) {
  return partition % kGridWidth == kGridRank % kGridWidth;
}

// Returns the entries for each partition, one behind another, up to the first that is invalid or
// that no rank may send to this one.
std::map<uint32_t, std::string> ByPartition(DatasetFormat format, Slice entries) {
  std::map<uint32_t, std::string> parted;
  while (!entries.empty()) {
    const char* const begin = entries.data();
    const auto entry = TakeEntry(format, &entries);
    if (!entry.has_value()) break;
    const auto partition = static_cast<uint32_t>(base::OwnerOf(entry->hash, kGridSize));
    if (!InColumn(partition)) break;
    parted[partition].append(begin, static_cast<size_t>(entries.data() - begin));
  }
  return parted;
}

// The batch that the forged choice makes of it.
std::string Forge(DatasetFormat format, Slice batch) {
  std::string forged;
  base::PutFixed(&forged, kAttempt);
  Slice rest = batch.substr(kBatchHeadBytes);
  while (!rest.empty()) {
    const char* const begin = rest.data();
    const auto entry = TakeEntry(format, &rest);
    if (!entry.has_value()) break;
    const auto partition = static_cast<uint32_t>(base::OwnerOf(entry->hash, kGridSize));
    if (InColumn(partition)) forged.append(begin, static_cast<size_t>(rest.data() - begin));
  }
  return forged.append(rest);
}

// A rank whose files and messages are in memory.
class Rank {
 public:
  explicit Rank(DatasetFormat format)
      : format_(format), route_(kGridRank, kGridSize, kGridRanksMin) {
    auto exchange = std::make_unique<MuteExchange>(
        kGridRank, kGridSize,
        [this](int to, uint32_t channel, Slice body) { OnSent(to, channel, body); });
    exchange_ = exchange.get();
    context_->executor = base::NewManualExecutor();
    context_->blocking_executor = context_->executor;
    context_->exchange = std::move(exchange);
    context_->progress_queue =
        std::make_unique<runtime::ProgressQueue>(exchange_, context_->blocking_executor);
    PartWriter::Options part;
    part.fs = fs_.get();
    part.rank = kGridRank;
    auto writer = PartWriter::Open(part, {});
    QUIRE_CHECK(writer.ok() && (*writer)->Prepare().ok());
    part_ = std::move(*writer);
    queue_ = std::make_shared<SerialQueue>(nullptr, exchange_);
    Shuffle::Options options;
    options.context = context_;
    options.number = kNumber;
    options.dataset.format = format;
    options.dataset.batch_bytes = 64;  // so that some are full
    options.dataset.grid_ranks_min = kGridRanksMin;
    options.dataset.partition_bytes = 64 << 10;
    options.attempt = kAttempt;
    builder_ =
        std::make_unique<PartitionBuilder>(options.dataset, route_, queue_.get(), part_.get());
    shuffle_ = std::make_unique<Shuffle>(options, route_, builder_.get());
  }

  Status Receive(uint32_t source, bool last_hop, Slice batch) {
    source_ = source;
    const uint32_t channel = runtime::Channel(kNumber, last_hop ? kLastHop : kFirstHop);
    const Status status = exchange_->Receive(static_cast<int>(source), channel, batch);
    while (context_->executor->RunOne()) {
    }
    return status;
  }

  uint64_t received() const { return builder_->received(); }
  /// By destination, without heads and marks.
  const std::map<uint32_t, std::string>& passed_on() const { return passed_on_; }
  bool MayPass(uint32_t source) const { return route_.MayPass(source); }

 private:
  void OnSent(int destination, uint32_t channel, Slice body) {
    QUIRE_CHECK(channel == runtime::Channel(kNumber, kLastHop));
    base::ByteReader head(body);
    uint64_t attempt = 0;
    QUIRE_CHECK(head.Fixed(&attempt) && attempt == kAttempt);
    const auto to = static_cast<uint32_t>(destination);
    const Route there(to, kGridSize, kGridRanksMin);
    for (Slice rest = head.rest(); !rest.empty();) {
      base::ByteReader reader(rest);
      uint16_t mark = 0;
      QUIRE_CHECK(reader.Fixed(&mark) && there.SourceOf(kGridRank, mark) == source_);
      rest = reader.rest();
      const char* const begin = rest.data();
      QUIRE_CHECK(TakeEntry(format_, &rest).has_value());
      passed_on_[to].append(begin, static_cast<size_t>(rest.data() - begin));
    }
  }

  const DatasetFormat format_;
  const Route route_;
  uint32_t source_ = 0;
  std::map<uint32_t, std::string> passed_on_;
  const std::unique_ptr<io::SimFileSystem> fs_ = io::NewSimFileSystem();
  const std::shared_ptr<runtime::ContextState> context_ = std::make_shared<runtime::ContextState>();
  MuteExchange* exchange_ = nullptr;
  std::unique_ptr<PartWriter> part_;
  std::shared_ptr<SerialQueue> queue_;
  std::unique_ptr<PartitionBuilder> builder_;
  std::unique_ptr<Shuffle> shuffle_;
};

// What is not full waits for more.
void ExpectPassedOn(const Rank& rank, const Status& status, DatasetFormat format, Slice entries) {
  const auto wanted = ByPartition(format, entries);
  uint64_t bytes = 0;
  for (const auto& [to, whole] : wanted) bytes += whole.size();
  QUIRE_CHECK(status.code() == (bytes == entries.size() ? Code::kOk : Code::kCorruption));
  for (const auto& [to, passed] : rank.passed_on()) {
    QUIRE_CHECK(wanted.contains(to) && Slice(wanted.at(to)).starts_with(passed));
  }
}

void Run(DatasetFormat format, uint32_t source, bool last_hop, Slice batch) {
  Rank rank(format);
  const Status status = rank.Receive(source, last_hop, batch);
  base::ByteReader head(batch);
  uint64_t attempt = 0;
  if (!head.Fixed(&attempt)) {
    QUIRE_CHECK(status.code() == Code::kCorruption && rank.received() == 0);
  } else if (attempt != kAttempt) {
    const bool ended = static_cast<int64_t>(attempt - kAttempt) < 0;
    QUIRE_CHECK(status.code() == (ended ? Code::kOk : Code::kBusy));
    QUIRE_CHECK(rank.received() == 0 && rank.passed_on().empty());
  } else if (last_hop) {
    QUIRE_CHECK(rank.passed_on().empty());
    QUIRE_CHECK(status.ok() || (status.code() == Code::kCorruption && rank.received() == 0));
  } else if (!rank.MayPass(source)) {
    QUIRE_CHECK(status.code() == Code::kCorruption && rank.passed_on().empty());
  } else {
    ExpectPassedOn(rank, status, format, head.rest());
  }
}

}  // namespace
}  // namespace quire::dataset

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quire::DatasetFormat;
  if (size < 2) return 0;
  constexpr DatasetFormat kFormats[] = {DatasetFormat::kBase, DatasetFormat::kPointer,
                                        DatasetFormat::kCuckoo, DatasetFormat::kRibbon};
  const DatasetFormat format = kFormats[data[0] & 3];
  std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  if ((data[0] & 8) != 0 && bytes.size() >= quire::dataset::kBatchHeadBytes) {
    bytes = quire::dataset::Forge(format, bytes);
  }
  // Exactly this size: the sanitizer sees every access beyond it.
  const std::vector<char> batch(bytes.begin(), bytes.end());
  quire::dataset::Run(format, data[1] % quire::dataset::kGridSize, (data[0] & 4) != 0,
                      quire::Slice(batch.data(), batch.size()));
  return 0;
}
