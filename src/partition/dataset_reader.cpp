#include "partition/dataset_reader.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/out_of_memory.h"
#include "filter/spread.h"
#include "io/machine.h"
#include "partition/dataset_scan.h"
#include "partition/pair_buffer.h"
#include "partition/value_file.h"

namespace quire::partition {

Result<std::unique_ptr<DatasetReader>> OpenReader(io::FileSystem& fs, const std::string& directory,
                                                  const DatasetReaderOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const Descriptor descriptor, ReadDescriptor(fs, directory));
  auto reader = std::make_unique<DatasetReaderImpl>(fs, directory, descriptor, options);
  QUIRE_RETURN_IF_ERROR(reader->Refresh());
  return std::unique_ptr<DatasetReader>(std::move(reader));
}

DatasetReaderImpl::DatasetReaderImpl(io::FileSystem& fs, const std::string& directory,
                                     const Descriptor& descriptor,
                                     const DatasetReaderOptions& options)
    : fs_(fs),
      directory_(directory),
      descriptor_(descriptor),
      counts_(std::make_shared<ReadCounts>()),
      parts_(std::make_shared<PartCache>(
          PartCache::Options{&fs, directory, descriptor, options.cache_bytes,
                             std::max(options.open_parts_max, 1u), counts_})),
      epochs_(std::make_shared<const std::vector<EpochRecord>>()) {}

Status DatasetReaderImpl::Refresh() {
  QUIRE_RETURN_IF_ERROR(CheckProcess());
  QUIRE_ASSIGN_OR_RETURN(std::vector<EpochRecord> epochs,
                         ReadEpochs(fs_, directory_, descriptor_.id));
  const std::lock_guard<std::mutex> lock(mutex_);
  epochs_ = std::make_shared<const std::vector<EpochRecord>>(std::move(epochs));
  return Status();
}

DatasetReaderImpl::Seen DatasetReaderImpl::Look() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return epochs_;
}

std::vector<DatasetEpoch> DatasetReaderImpl::Epochs() const {
  if (process_.forked()) return {};
  std::vector<DatasetEpoch> epochs;
  for (const EpochRecord& epoch : *Look()) {
    epochs.push_back({epoch.number, epoch.rank_count, epoch.pair_count, epoch.unix_time});
  }
  return epochs;
}

Result<size_t> DatasetReaderImpl::PlaceOf(const std::vector<EpochRecord>& epochs,
                                          uint64_t number) const {
  const auto found = std::lower_bound(
      epochs.begin(), epochs.end(), number,
      [](const EpochRecord& epoch, uint64_t wanted) { return epoch.number < wanted; });
  if (found != epochs.end() && found->number == number) {
    return static_cast<size_t>(found - epochs.begin());
  }
  return Status(Code::kNotFound, "the dataset at " + directory_ + " has no complete epoch " +
                                     std::to_string(number));
}

Status DatasetReaderImpl::Find(const std::vector<EpochRecord>& epochs, size_t which, Slice key,
                               std::vector<DatasetValue>* values) const {
  const EpochRecord& epoch = epochs[which];
  const uint64_t hash = base::HashKey(key);
  const auto owner = static_cast<uint32_t>(base::OwnerOf(hash, static_cast<int>(epoch.rank_count)));
  queries_.fetch_add(1, std::memory_order_relaxed);
  const size_t before = values->size();
  const bool many = HasKeys(descriptor_.format);
  std::vector<uint32_t> ranks{owner};
  if (!many) {
    ranks.clear();
    QUIRE_ASSIGN_OR_RETURN(const auto part, parts_->Find(epochs, which, owner));
    QUIRE_RETURN_IF_ERROR(part->FindRanks(hash, &ranks));
  }
  for (const uint32_t rank : ranks) {
    const size_t found = values->size();
    QUIRE_ASSIGN_OR_RETURN(const auto part, parts_->Find(epochs, which, rank));
    QUIRE_RETURN_IF_ERROR(part->Get(key, hash, many, [&](uint32_t source, Slice value) {
      values->push_back({epoch.number, source, {}});
      return ValueOf(epochs, which, source, value, &values->back().value);
    }));
    partitions_.fetch_add(1, std::memory_order_relaxed);
    if (values->size() == found) false_candidates_.fetch_add(1, std::memory_order_relaxed);
  }
  std::sort(values->begin() + static_cast<ptrdiff_t>(before), values->end(),
            [](const DatasetValue& a, const DatasetValue& b) { return a.rank < b.rank; });
  return Status();
}

// What stands for a value in a table is it, or says where it lies.
Status DatasetReaderImpl::ValueOf(const std::vector<EpochRecord>& epochs, size_t which,
                                  uint32_t source, Slice stored, std::string* value) const {
  if (descriptor_.format != DatasetFormat::kPointer) {
    value->assign(stored);
    return Status();
  }
  if (stored.size() != kPointerBytes || DecodePointer(stored).rank != source ||
      source >= epochs[which].rank_count) {
    return Status(Code::kCorruption, directory_ + ": an epoch has a pointer that is none");
  }
  const ValuePointer pointer = DecodePointer(stored);
  QUIRE_ASSIGN_OR_RETURN(const auto part, parts_->Find(epochs, which, source));
  return ReadValue(part->values(), ValueSeed(descriptor_.id, source, pointer.offset),
                   pointer.offset, part->record().values_end, value);
}

Status DatasetReaderImpl::Get(uint64_t epoch, Slice key, std::vector<DatasetValue>* values) const {
  QUIRE_RETURN_IF_ERROR(CheckProcess());
  values->clear();
  const Seen epochs = Look();
  QUIRE_ASSIGN_OR_RETURN(const size_t which, PlaceOf(*epochs, epoch));
  QUIRE_RETURN_IF_ERROR(base::OrOutOfMemory([&] { return Find(*epochs, which, key, values); }));
  return values->empty() ? Status(Code::kNotFound) : Status();
}

Status DatasetReaderImpl::GetTrajectory(Slice key, std::vector<DatasetValue>* values) const {
  QUIRE_RETURN_IF_ERROR(CheckProcess());
  values->clear();
  const Seen epochs = Look();
  for (size_t which = 0; which < epochs->size(); ++which) {
    QUIRE_RETURN_IF_ERROR(base::OrOutOfMemory([&] { return Find(*epochs, which, key, values); }));
  }
  return values->empty() ? Status(Code::kNotFound) : Status();
}

namespace {

// Where a key's map is, and where it is in it: what is in one shard of one map comes together.
struct Place {
  Place(uint64_t hash, int rank_count)
      : owner(static_cast<uint32_t>(base::OwnerOf(hash, rank_count))),
        within(filter::Spread(hash)) {}
  friend auto operator<=>(const Place&, const Place&) = default;

  uint32_t owner;
  uint64_t within;
};

}  // namespace

Status DatasetReaderImpl::GetMany(uint64_t epoch, const std::vector<Slice>& keys,
                                  std::vector<std::vector<DatasetValue>>* values) const {
  QUIRE_RETURN_IF_ERROR(CheckProcess());
  values->assign(keys.size(), {});
  const Seen epochs = Look();
  QUIRE_ASSIGN_OR_RETURN(const size_t which, PlaceOf(*epochs, epoch));
  const int rank_count = static_cast<int>((*epochs)[which].rank_count);
  std::vector<std::pair<Place, size_t>> order;
  for (size_t i = 0; i < keys.size(); ++i) {
    order.emplace_back(Place(base::HashKey(keys[i]), rank_count), i);
  }
  std::sort(order.begin(), order.end());
  for (const std::pair<Place, size_t>& wanted : order) {
    const size_t i = wanted.second;
    QUIRE_RETURN_IF_ERROR(
        base::OrOutOfMemory([&] { return Find(*epochs, which, keys[i], &(*values)[i]); }));
  }
  return Status();
}

std::unique_ptr<DatasetScan> DatasetReaderImpl::Scan(uint64_t epoch, uint32_t rank_begin,
                                                     uint32_t rank_end) const {
  if (process_.forked()) return NewFailedScan(CheckProcess());
  const Seen epochs = Look();
  const Result<size_t> which = PlaceOf(*epochs, epoch);
  if (!which.ok()) return NewFailedScan(which.status());
  return ScanOf(epochs, *which, rank_begin, rank_end);
}

std::unique_ptr<DatasetScan> DatasetReaderImpl::ScanOf(const Seen& epochs, size_t which,
                                                       uint32_t rank_begin,
                                                       uint32_t rank_end) const {
  ScanOptions scan;
  scan.rank_begin = rank_begin;
  scan.rank_end = std::min(rank_end, (*epochs)[which].rank_count);
  scan.part_of = [epochs, which, parts = parts_](uint32_t rank) {
    return parts->Find(*epochs, which, rank);
  };
  if (descriptor_.format == DatasetFormat::kPointer) {
    scan.value_of = [this, epochs, which](uint32_t rank, Slice stored, std::string* value) {
      return ValueOf(*epochs, which, rank, stored, value);
    };
  }
  return NewDatasetScan(std::move(scan));
}

Status DatasetReaderImpl::Verify(uint64_t epoch) const {
  QUIRE_RETURN_IF_ERROR(CheckProcess());
  const Seen epochs = Look();
  QUIRE_ASSIGN_OR_RETURN(const size_t which, PlaceOf(*epochs, epoch));
  const EpochRecord& record = (*epochs)[which];
  uint64_t pair_count = 0;
  for (uint32_t rank = 0; rank < record.rank_count; ++rank) {
    QUIRE_ASSIGN_OR_RETURN(const auto part, parts_->Find(*epochs, which, rank));
    QUIRE_RETURN_IF_ERROR(part->Verify());
    pair_count += part->record().pair_count;
  }
  if (pair_count != record.pair_count) {
    return Status(Code::kCorruption, directory_ + ": the epoch " + std::to_string(epoch) + " has " +
                                         std::to_string(record.pair_count) +
                                         " pairs, but its parts have " +
                                         std::to_string(pair_count));
  }
  for (uint32_t rank = 0; rank < record.rank_count; ++rank) {
    QUIRE_RETURN_IF_ERROR(VerifyPairs(epochs, which, rank));
  }
  return Status();
}

// What Get would miss although it is there; and every pointer is followed.
Status DatasetReaderImpl::VerifyPairs(const Seen& epochs, size_t which, uint32_t rank) const {
  constexpr size_t kPairsAtOnce = 1 << 17;  // so that each part and shard is looked at for several
  const auto rank_count = static_cast<int>((*epochs)[which].rank_count);
  std::vector<std::pair<Place, uint64_t>> pairs;  // with the hash
  const auto scan = ScanOf(epochs, which, rank, rank + 1);
  while (scan->Valid()) {
    for (pairs.clear(); scan->Valid() && pairs.size() < kPairsAtOnce; scan->Next()) {
      const uint64_t hash = base::HashKey(scan->key());
      pairs.emplace_back(Place(hash, rank_count), hash);
    }
    std::sort(pairs.begin(), pairs.end());
    for (const std::pair<Place, uint64_t>& pair : pairs) {
      QUIRE_RETURN_IF_ERROR(VerifyPair(*epochs, which, rank, pair.first.owner, pair.second));
    }
  }
  return scan->status();
}

Status DatasetReaderImpl::VerifyPair(const std::vector<EpochRecord>& epochs, size_t which,
                                     uint32_t rank, uint32_t owner, uint64_t hash) const {
  std::vector<uint32_t> ranks{owner};
  if (!HasKeys(descriptor_.format)) {
    ranks.clear();
    QUIRE_ASSIGN_OR_RETURN(const auto part, parts_->Find(epochs, which, owner));
    QUIRE_RETURN_IF_ERROR(part->FindRanks(hash, &ranks));
  }
  if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) return Status();
  return Status(Code::kCorruption, PartPath(directory_, rank) + " has a pair of the epoch " +
                                       std::to_string(epochs[which].number) +
                                       " that its partition, " + PartPath(directory_, owner) +
                                       ", does not know of");
}

DatasetReaderStatistics DatasetReaderImpl::Statistics() const {
  if (process_.forked()) return {};
  DatasetReaderStatistics statistics;
  statistics.queries = queries_;
  statistics.partitions = partitions_;
  statistics.false_candidates = false_candidates_;
  statistics.reads = counts_->reads;
  statistics.bytes_read = counts_->bytes;
  return statistics;
}

}  // namespace quire::partition

namespace quire {

Result<std::unique_ptr<DatasetReader>> DatasetReader::Open(const std::string& directory,
                                                           const DatasetReaderOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::string path, io::AbsolutePath(directory));
  return partition::OpenReader(io::PosixFileSystem(), path, options);
}

}  // namespace quire
