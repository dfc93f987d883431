/// Helpers of the tests of datasets: the written pairs, and the pairs that must be found.
///
/// Layer      dataset (tests)
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/files/file_system.h"
#include "quire/dataset.h"
#include "runtime/sim_ranks_testing.h"

namespace quire::dataset {

constexpr char kDatasetDirectory[] = "/repository/steps";

/// Small buffers and batches: an epoch of some hundred pairs has several tables and maps, and ranks
/// refuse batches.
inline DatasetOptions SmallDataset(DatasetFormat format) {
  DatasetOptions options;
  options.format = format;
  options.batch_bytes = 1 << 10;
  options.table_bytes = 64 << 10;
  options.partition_bytes = 64 << 10;
  options.in_flight_bytes = 64 << 10;
  options.block_bytes = 512;
  return options;
}

/// Opens the dataset "steps".
Result<std::unique_ptr<DatasetWriter>> OpenWriter(
    const std::shared_ptr<runtime::ContextState>& context, const DatasetOptions& options,
    const std::string& name = "steps");

using Pairs = std::vector<std::pair<std::string, std::string>>;
/// The puts of `rank` (of `rank_count`) in an epoch, in order: keys of its own, keys that other
/// ranks also put, keys twice, keys with NUL bytes, values from 0 to `value_bytes_max` bytes.
Pairs PairsOf(uint64_t epoch, int rank, int rank_count, int count, size_t value_bytes_max = 300);

/// By key, by rank: what counts of an epoch.
using Truth = std::map<std::string, std::map<uint32_t, std::string>>;
Truth TruthOf(uint64_t epoch, int rank_count, int count, size_t value_bytes_max = 300);

/// Puts them; stops at the first failure.
Status PutAll(DatasetWriter& writer, const Pairs& pairs);
/// One whole epoch of this rank.
Status WriteEpoch(DatasetWriter& writer, uint64_t epoch, int rank, int rank_count, int count);

/// Looks up every key of the epoch and absent keys, and scans it.
void ExpectEpoch(const DatasetReader& reader, uint64_t epoch, const Truth& truth);
/// The numbers of its complete epochs.
std::vector<uint64_t> NumbersOf(const DatasetReader& reader);

}  // namespace quire::dataset
