/// Reads a partitioned dataset: the key's partition returns the ranks that may have the key, and
/// their tables contain the pairs.
///
/// Layer      dataset
/// Source     FilterKV, CMU-PDL-19-104, sections 3.3 and 4.2
/// Threads    any
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/threads/forked_child.h"
#include "dataset/part/files.h"
#include "dataset/part/part_cache.h"
#include "dataset/route/shuffle_entry.h"
#include "io/files/file_system.h"
#include "quire/dataset.h"
#include "runtime/partitioning.h"

namespace quire::dataset {

Result<std::unique_ptr<DatasetReader>> OpenReader(io::FileSystem& fs, const std::string& directory,
                                                  const DatasetReaderOptions& options);

class DatasetReaderImpl final : public DatasetReader {
 public:
  DatasetReaderImpl(io::FileSystem& fs, const std::string& directory,
                    const DatasetDescriptor& descriptor,
                    std::optional<runtime::Partitioning> partitioning,
                    const DatasetReaderOptions& options);

  DatasetFormat format() const override { return descriptor_.format; }
  std::string partitioner_name() const override { return descriptor_.partitioner; }
  std::vector<DatasetEpoch> Epochs() const override;
  Status Get(uint64_t epoch, Slice key, std::vector<DatasetValue>* values) const override;
  Status GetTrajectory(Slice key, std::vector<DatasetValue>* values) const override;
  Status GetMany(uint64_t epoch, const std::vector<Slice>& keys,
                 std::vector<std::vector<DatasetValue>>* values) const override;
  std::unique_ptr<DatasetScan> Scan(uint64_t epoch, uint32_t rank_begin,
                                    uint32_t rank_end) const override;
  Status Verify(uint64_t epoch) const override;
  Status Refresh() override;
  DatasetReaderStatistics Statistics() const override;

 private:
  /// The epochs that were complete at the last refresh; calls in progress keep the epochs with
  /// which they began.
  using Seen = std::shared_ptr<const std::vector<EpochRecord>>;
  Seen Look() const;
  Result<size_t> PlaceOf(const std::vector<EpochRecord>& epochs, uint64_t number) const;
  /// The place of a key's search: keys of one shard of one map are together.
  struct Place {
    std::optional<uint32_t> partition;  ///< none: this reader does not know it, and searches all
                                        ///< partitions
    uint64_t within = 0;                ///< of the partition's maps
    uint64_t hash = 0;

    friend auto operator<=>(const Place& a, const Place& b) = default;
  };
  Result<Place> Locate(Slice key, const EpochRecord& epoch) const;
  Status Find(const std::vector<EpochRecord>& epochs, size_t which, Slice key,
              std::vector<DatasetValue>* values) const;
  Status FindAt(const Place& place, const std::vector<EpochRecord>& epochs, size_t which, Slice key,
                std::vector<DatasetValue>* values) const;
  /// Returns the ranks whose tables may contain the key, each once, in rising order.
  Result<std::vector<uint32_t>> RanksToAsk(const Place& place,
                                           const std::vector<EpochRecord>& epochs,
                                           size_t which) const;
  Status AddRanks(uint32_t partition, uint64_t hash, const std::vector<EpochRecord>& epochs,
                  size_t which, std::vector<uint32_t>* ranks) const;
  std::unique_ptr<DatasetScan> ScanOf(const Seen& epochs, size_t which, uint32_t rank_begin,
                                      uint32_t rank_end) const;
  Status VerifyPairs(const Seen& epochs, size_t which, uint32_t rank) const;
  Status VerifyPlaces(const std::vector<EpochRecord>& epochs, size_t which, uint32_t rank,
                      std::vector<Place>* places) const;
  Result<bool> Knows(uint32_t partition, uint64_t hash, const std::vector<EpochRecord>& epochs,
                     size_t which, uint32_t rank) const;
  Status UnknownPair(const EpochRecord& epoch, uint32_t rank, const Place& place) const;
  Status ValueOf(const std::vector<EpochRecord>& epochs, size_t which, uint32_t source,
                 Slice stored, std::string* value) const;

  Status CheckProcess() const { return process_.Check("the reader of a dataset"); }

  const base::OwnProcess process_;
  io::FileSystem& fs_;
  const std::string directory_;
  const DatasetDescriptor descriptor_;
  /// none: this reader does not know it
  const std::optional<runtime::Partitioning> partitioning_;
  const bool first_match_;
  const std::shared_ptr<ReadCounts> counts_;
  const std::shared_ptr<PartCache> parts_;
  mutable std::mutex mutex_;
  Seen epochs_;  ///< guarded by mutex_
  mutable std::atomic<uint64_t> queries_{0};
  mutable std::atomic<uint64_t> partitions_{0};
  mutable std::atomic<uint64_t> false_candidates_{0};
};

}  // namespace quire::dataset
