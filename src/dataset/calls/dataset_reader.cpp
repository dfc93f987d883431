#include "dataset/calls/dataset_reader.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/core/out_of_memory.h"
#include "base/core/program_call.h"
#include "base/hash/hash.h"
#include "dataset/calls/dataset_scan.h"
#include "dataset/part/pair_buffer.h"
#include "dataset/part/value_file.h"
#include "filter/rank_map/spread.h"
#include "io/files/machine.h"
#include "runtime/repository.h"

namespace quire::dataset {

Result<std::unique_ptr<DatasetReader>> OpenReader(io::FileSystem& fs, const std::string& directory,
                                                  const DatasetReaderOptions& options) {
  const Result<DatasetDescriptor> found = ReadDescriptor(fs, directory);
  if (found.status().code() == Code::kNotFound) {
    return Status(Code::kNotFound, "there is no dataset at " + directory + ": " + directory + "/" +
                                       runtime::kDatasetFile +
                                       " is absent; name a dataset's directory, "
                                       "<repository>/<name>");
  }
  QUIRE_ASSIGN_OR_RETURN(const DatasetDescriptor descriptor, found);
  QUIRE_ASSIGN_OR_RETURN(
      const runtime::Partitioning given,
      runtime::Partitioning::Make(options.partitioner, options.partitioner_name));
  std::optional<runtime::Partitioning> partitioning;
  const bool asked = options.partitioner || !options.partitioner_name.empty();
  if (asked) QUIRE_RETURN_IF_ERROR(CheckPartitioner(descriptor, given.name(), directory));
  if (given.name() == descriptor.partitioner) partitioning = given;
  auto reader = std::make_unique<DatasetReaderImpl>(fs, directory, descriptor,
                                                    std::move(partitioning), options);
  QUIRE_RETURN_IF_ERROR(reader->Refresh());
  return std::unique_ptr<DatasetReader>(std::move(reader));
}

DatasetReaderImpl::DatasetReaderImpl(io::FileSystem& fs, const std::string& directory,
                                     const DatasetDescriptor& descriptor,
                                     std::optional<runtime::Partitioning> partitioning,
                                     const DatasetReaderOptions& options)
    : fs_(fs),
      directory_(directory),
      descriptor_(descriptor),
      partitioning_(std::move(partitioning)),
      first_match_(options.first_match),
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

Result<DatasetReaderImpl::Place> DatasetReaderImpl::Locate(Slice key,
                                                           const EpochRecord& epoch) const {
  const uint64_t hash = base::HashKey(key);
  Place place{std::nullopt, filter::Spread(hash), hash};
  if (!partitioning_) return place;
  const Result<int> owner = partitioning_->OwnerOf(key, hash, static_cast<int>(epoch.rank_count));
  if (!owner.ok()) return owner.status().WithContext("the dataset at " + directory_);
  place.partition = static_cast<uint32_t>(*owner);
  return place;
}

Status DatasetReaderImpl::AddRanks(uint32_t partition, uint64_t hash,
                                   const std::vector<EpochRecord>& epochs, size_t which,
                                   std::vector<uint32_t>* ranks) const {
  if (HasKeys(descriptor_.format)) {
    ranks->push_back(partition);
    return Status();
  }
  QUIRE_ASSIGN_OR_RETURN(const auto part, parts_->Find(epochs, which, partition));
  return part->FindRanks(hash, ranks);
}

Result<std::vector<uint32_t>> DatasetReaderImpl::RanksToAsk(const Place& place,
                                                            const std::vector<EpochRecord>& epochs,
                                                            size_t which) const {
  std::vector<uint32_t> ranks;
  if (place.partition.has_value()) {
    QUIRE_RETURN_IF_ERROR(AddRanks(*place.partition, place.hash, epochs, which, &ranks));
    return ranks;
  }
  for (uint32_t partition = 0; partition < epochs[which].rank_count; ++partition) {
    QUIRE_RETURN_IF_ERROR(AddRanks(partition, place.hash, epochs, which, &ranks));
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

Status DatasetReaderImpl::Find(const std::vector<EpochRecord>& epochs, size_t which, Slice key,
                               std::vector<DatasetValue>* values) const {
  QUIRE_ASSIGN_OR_RETURN(const Place place, Locate(key, epochs[which]));
  return FindAt(place, epochs, which, key, values);
}

Status DatasetReaderImpl::FindAt(const Place& place, const std::vector<EpochRecord>& epochs,
                                 size_t which, Slice key, std::vector<DatasetValue>* values) const {
  const uint64_t number = epochs[which].number;
  queries_.fetch_add(1, std::memory_order_relaxed);
  const size_t before = values->size();
  const bool many = HasKeys(descriptor_.format) && !first_match_;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<uint32_t> ranks, RanksToAsk(place, epochs, which));
  for (const uint32_t rank : ranks) {
    const size_t found = values->size();
    QUIRE_ASSIGN_OR_RETURN(const auto part, parts_->Find(epochs, which, rank));
    QUIRE_RETURN_IF_ERROR(part->Get(key, place.hash, many, [&](uint32_t source, Slice value) {
      values->push_back({number, source, {}});
      return ValueOf(epochs, which, source, value, &values->back().value);
    }));
    partitions_.fetch_add(1, std::memory_order_relaxed);
    if (values->size() == found) {
      false_candidates_.fetch_add(1, std::memory_order_relaxed);
    } else if (first_match_) {
      break;
    }
  }
  std::sort(values->begin() + static_cast<ptrdiff_t>(before), values->end(),
            [](const DatasetValue& a, const DatasetValue& b) { return a.rank < b.rank; });
  return Status();
}

// Returns the value of an entry: `stored` is the value, or says where it is.
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

Status DatasetReaderImpl::GetMany(uint64_t epoch, const std::vector<Slice>& keys,
                                  std::vector<std::vector<DatasetValue>>* values) const {
  QUIRE_RETURN_IF_ERROR(CheckProcess());
  values->assign(keys.size(), {});
  const Seen epochs = Look();
  QUIRE_ASSIGN_OR_RETURN(const size_t which, PlaceOf(*epochs, epoch));
  std::vector<std::pair<Place, size_t>> order;
  for (size_t i = 0; i < keys.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(const Place place, Locate(keys[i], (*epochs)[which]));
    order.emplace_back(place, i);
  }
  std::sort(order.begin(), order.end());
  for (const std::pair<Place, size_t>& next : order) {
    QUIRE_RETURN_IF_ERROR(base::OrOutOfMemory([&] {
      const size_t i = next.second;
      return FindAt(next.first, *epochs, which, keys[i], &(*values)[i]);
    }));
  }
  return Status();
}

std::unique_ptr<DatasetScan> DatasetReaderImpl::Scan(uint64_t epoch, uint32_t rank_begin,
                                                     uint32_t rank_end) const {
  if (!process_.MayCall()) return NewFailedScan(CheckProcess());
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

// Checks that Get would find each pair of `rank`, and follows every pointer.
Status DatasetReaderImpl::VerifyPairs(const Seen& epochs, size_t which, uint32_t rank) const {
  constexpr size_t kPairsAtOnce = 1 << 17;  // so that one look at a part or shard serves several
  std::vector<Place> places;
  const auto scan = ScanOf(epochs, which, rank, rank + 1);
  while (scan->Valid()) {
    for (places.clear(); scan->Valid() && places.size() < kPairsAtOnce; scan->Next()) {
      QUIRE_ASSIGN_OR_RETURN(const Place place, Locate(scan->key(), (*epochs)[which]));
      places.push_back(place);
    }
    std::sort(places.begin(), places.end());
    QUIRE_RETURN_IF_ERROR(VerifyPlaces(*epochs, which, rank, &places));
  }
  return scan->status();
}

// Searches one map after another: first those of the known partitions; then, for places without a
// known partition, all maps.
Status DatasetReaderImpl::VerifyPlaces(const std::vector<EpochRecord>& epochs, size_t which,
                                       uint32_t rank, std::vector<Place>* places) const {
  const EpochRecord& epoch = epochs[which];
  std::vector<Place> unknown;
  for (const Place& place : *places) {
    if (!place.partition.has_value()) {
      unknown.push_back(place);
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(const bool known,
                           Knows(*place.partition, place.hash, epochs, which, rank));
    if (!known) return UnknownPair(epoch, rank, place);
  }
  for (uint32_t partition = 0; partition < epoch.rank_count && !unknown.empty(); ++partition) {
    places->clear();
    for (const Place& place : unknown) {
      QUIRE_ASSIGN_OR_RETURN(const bool known, Knows(partition, place.hash, epochs, which, rank));
      if (!known) places->push_back(place);
    }
    unknown.swap(*places);
  }
  return unknown.empty() ? Status() : UnknownPair(epoch, rank, unknown[0]);
}

// Returns whether a question to the partition finds a pair of `rank`.
Result<bool> DatasetReaderImpl::Knows(uint32_t partition, uint64_t hash,
                                      const std::vector<EpochRecord>& epochs, size_t which,
                                      uint32_t rank) const {
  std::vector<uint32_t> ranks;
  QUIRE_RETURN_IF_ERROR(AddRanks(partition, hash, epochs, which, &ranks));
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

Status DatasetReaderImpl::UnknownPair(const EpochRecord& epoch, uint32_t rank,
                                      const Place& place) const {
  const std::string pair = PartPath(directory_, rank) + " has a pair of the epoch " +
                           std::to_string(epoch.number);
  if (!place.partition.has_value()) {
    return Status(Code::kCorruption, pair + " that no partition knows of");
  }
  const std::string partition = PartPath(directory_, *place.partition);
  if (partitioning_->by_hash()) {
    return Status(Code::kCorruption,
                  pair + " that its partition, " + partition + ", does not know of");
  }
  return Status(Code::kInvalidArgument,
                pair + " that " + partition + ", its partition by the partitioner \"" +
                    descriptor_.partitioner +
                    "\", does not know of: give the function with which it was written, or none");
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

}  // namespace quire::dataset

namespace quire {

Result<std::unique_ptr<DatasetReader>> DatasetReader::Open(const std::string& directory,
                                                           const DatasetReaderOptions& options) {
  QUIRE_RETURN_IF_ERROR(base::CheckNoProgramCall("DatasetReader::Open"));
  QUIRE_ASSIGN_OR_RETURN(const std::string path, io::AbsolutePath(directory));
  return dataset::OpenReader(io::PosixFileSystem(), path, options);
}

}  // namespace quire
