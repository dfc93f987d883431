/// Jobs of ranks that write one dataset, for tests of what is found in it then.
///
/// Layer      dataset (tests)
/// Threads    one
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "dataset/calls/dataset_testing.h"
#include "io/sim/sim_file_system.h"

namespace quire::dataset {

constexpr int kPairCount = 900;  ///< of a rank in an epoch: several tables and maps

/// Jobs whose ranks write the dataset "steps" to one disk: in a format, by turns or by threads.
class DatasetJobs : public testing::TestWithParam<std::tuple<DatasetFormat, bool>> {
 protected:
  DatasetFormat format() const { return std::get<0>(GetParam()); }
  bool by_turns() const { return std::get<1>(GetParam()); }
  runtime::SimRanksOptions Ranks(int size);
  /// A job of `size` ranks that writes these epochs.
  void Write(int size, const std::vector<uint64_t>& epochs, int count = kPairCount,
             uint32_t grid_ranks_min = 1024);
  void Write(int size, const std::vector<uint64_t>& epochs, int count,
             const DatasetOptions& options);
  /// A reader of it; null, and a failure, if there is none.
  std::unique_ptr<DatasetReader> Reader();

  std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  uint64_t seed_ = 0;
};
/// For INSTANTIATE_TEST_SUITE_P.
testing::internal::ParamGenerator<std::tuple<DatasetFormat, bool>> AllDatasetJobs();
std::string NameOfJobs(const testing::TestParamInfo<std::tuple<DatasetFormat, bool>>& about);

}  // namespace quire::dataset
