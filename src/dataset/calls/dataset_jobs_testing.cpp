#include "dataset/calls/dataset_jobs_testing.h"

#include "dataset/calls/dataset_reader.h"
#include "dataset/part/files.h"

namespace quire::dataset {

runtime::SimRanksOptions DatasetJobs::Ranks(int size) {
  runtime::SimRanksOptions ranks;
  ranks.rank_count = size;
  ranks.by_turns = by_turns();
  ranks.seed = ++seed_;
  ranks.file_system = [this](int) { return disk_.get(); };
  return ranks;
}

void DatasetJobs::Write(int size, const std::vector<uint64_t>& epochs, int count,
                        uint32_t grid_ranks_min) {
  DatasetOptions options = SmallDataset(format());
  options.grid_ranks_min = grid_ranks_min;
  Write(size, epochs, count, options);
}

void DatasetJobs::Write(int size, const std::vector<uint64_t>& epochs, int count,
                        const DatasetOptions& options) {
  runtime::RunSimRanks(Ranks(size), [&](const std::shared_ptr<runtime::ContextState>& context) {
    auto writer = OpenWriter(context, options);
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    for (const uint64_t epoch : epochs) {
      const Status written = WriteEpoch(**writer, epoch, context->rank(), size, count);
      ASSERT_TRUE(written.ok()) << written.ToString();
      EXPECT_EQ((*writer)->LastEpoch(), epoch);
    }
    EXPECT_TRUE((*writer)->Finish().ok());
  });
}

std::unique_ptr<DatasetReader> DatasetJobs::Reader() {
  auto reader = OpenReader(*disk_, kDatasetDirectory, {});
  EXPECT_TRUE(reader.ok()) << reader.status().ToString();
  return reader.ok() ? std::move(*reader) : nullptr;
}

testing::internal::ParamGenerator<std::tuple<DatasetFormat, bool>> AllDatasetJobs() {
  return testing::Combine(
      testing::Values(DatasetFormat::kBase, DatasetFormat::kPointer, DatasetFormat::kBloom,
                      DatasetFormat::kCuckoo, DatasetFormat::kRibbon),
      testing::Bool());
}

std::string NameOfJobs(const testing::TestParamInfo<std::tuple<DatasetFormat, bool>>& about) {
  return std::string(FormatName(std::get<0>(about.param))) +
         (std::get<1>(about.param) ? "Turns" : "Threads");
}

}  // namespace quire::dataset
