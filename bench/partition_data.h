/// A simulation's output, written in one of the ways of FilterKV or in a way with which it is
/// compared, and queried for single pairs.
///
/// Layer      bench
/// Threads    one thread of each rank; collective unless said otherwise
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "keys.h"
#include "partition.h"
#include "plain_files.h"
#include "quire/dataset.h"
#include "throttled_file_system.h"

namespace quire::bench {

/// The cost of writing.
struct WriteCost {
  double seconds = 0;       ///< of the slowest rank
  double put_seconds = 0;   ///< of the slowest rank, without the ends of the epochs
  double stored_bytes = 0;  ///< of all files
  double sent_bytes = 0;    ///< over all ranks
};

/// A reader that queries one pair after another. One process.
class Asker {
 public:
  virtual ~Asker() = default;
  /// Finds the value of `key` in the epoch. Errors  those of files; kNotFound.
  virtual Status Ask(uint32_t epoch, Slice key, std::string* value) = 0;
  /// Returns the cost of the queries so far, except their time; all zero if it is not counted.
  virtual DatasetReaderStatistics Statistics() const { return {}; }
};

/// The output of all ranks. Ways: "direct", each rank writes a file of its own; "sorted", one rank
/// then sorts these into one file; and the formats of datasets.
class PartitionData {
 public:
  PartitionData(Ranks& ranks, io::FileSystem& fs, const PartitionSettings& settings,
                std::string way, size_t pair_bytes);

  /// Returns the pairs of a rank in an epoch.
  uint64_t count() const { return count_; }
  /// Writes the epochs 1 to `epochs`. Between epochs each rank's keys go to the next rank.
  Result<WriteCost> Write(uint32_t epochs);
  /// Removes everything that Write wrote.
  Status Remove();

  /// Not collective: the first pairs of a rank have key numbers from rank times count() on.
  uint64_t KeyCount() const { return count_ * static_cast<uint64_t>(ranks_.size()); }
  /// Not collective.
  Result<std::unique_ptr<Asker>> NewAsker() const;
  /// Not collective: the key that has this number, and whether it has this value in the epoch.
  static std::string KeyOf(uint64_t number);
  bool Matches(uint32_t epoch, uint64_t number, Slice value) const;

 private:
  template <typename Put>
  Status PutPairs(uint32_t epoch, const Put& put);
  Result<WriteCost> WriteDataset(uint32_t epochs);
  Result<WriteCost> WriteFiles(uint32_t epochs);
  Status WriteFile(uint32_t epoch, double* put_seconds);
  std::vector<std::string> FilesOf(uint32_t epoch) const;
  std::string SortedFileOf(uint32_t epoch) const;
  PairShape shape() const { return {kKeyBytes, pair_bytes_}; }

  static constexpr size_t kKeyBytes = 8;
  Ranks& ranks_;
  io::FileSystem& fs_;
  const std::string way_;
  const size_t pair_bytes_;
  const uint64_t count_;
  const uint64_t buffer_bytes_;
  const std::string name_;
  const std::string directory_;
  ValueMaker values_;
};

}  // namespace quire::bench
