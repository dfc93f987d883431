#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dataset/calls/dataset_jobs_testing.h"
#include "dataset/calls/dataset_reader.h"
#include "dataset/part/files.h"
#include "io/sim/sim_file_system.h"
#include "runtime/agreement.h"
#include "tests/support/status_asserts.h"

namespace quire::dataset::dataset_test {
namespace {

using runtime::RunSimRanks;
using runtime::SimRanksOptions;
using testing::ElementsAre;
using testing::HasSubstr;

class Dataset : public DatasetJobs {};
INSTANTIATE_TEST_SUITE_P(Formats, Dataset, AllDatasetJobs(), NameOfJobs);

TEST_P(Dataset, FindsWhatWasPutAtAnyNumberOfRanks) {
  for (int size = 1; size <= 4; ++size) {
    disk_ = io::NewSimFileSystem();
    Write(size, {10, 20, 35});
    const auto reader = Reader();
    ASSERT_NE(reader, nullptr);
    EXPECT_THAT(NumbersOf(*reader), ElementsAre(10, 20, 35));
    for (const uint64_t epoch : {10u, 20u, 35u}) {
      ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, epoch, TruthOf(epoch, size, kPairCount)));
      EXPECT_OK(reader->Verify(epoch));
    }
    std::vector<DatasetValue> values;
    EXPECT_CODE(reader->Get(11, "0own1", &values), Code::kNotFound);
  }
}

TEST_P(Dataset, FindsWhatWasPutOverTheGrid) {
  for (const int size : {2, 3, 7, 16}) {
    disk_ = io::NewSimFileSystem();
    Write(size, {1, 2}, 200, 2);
    const auto reader = Reader();
    ASSERT_NE(reader, nullptr);
    for (const uint64_t epoch : {1u, 2u}) {
      ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, epoch, TruthOf(epoch, size, 200))) << size;
    }
  }
}

TEST_P(Dataset, GoesOnWithAnyNumberOfRanks) {
  const std::vector<int> sizes = {2, 4, 1, 3};
  uint64_t epoch = 0;
  for (const int size : sizes) Write(size, {++epoch});
  const auto reader = Reader();
  ASSERT_NE(reader, nullptr);
  epoch = 0;
  for (const int size : sizes) {
    ++epoch;
    ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, epoch, TruthOf(epoch, size, kPairCount)));
    EXPECT_EQ(reader->Epochs()[epoch - 1].rank_count, static_cast<uint32_t>(size));
  }
}

TEST_P(Dataset, GetTrajectoryReturnsEveryValueOfAKey) {
  Write(3, {1, 2, 3, 4, 5});
  const auto reader = Reader();
  ASSERT_NE(reader, nullptr);
  std::map<std::string, std::vector<std::tuple<uint64_t, uint32_t, std::string>>> paths;
  for (uint64_t epoch = 1; epoch <= 5; ++epoch) {
    for (const auto& [key, by_rank] : TruthOf(epoch, 3, kPairCount)) {
      for (const auto& [rank, value] : by_rank) paths[key].emplace_back(epoch, rank, value);
    }
  }
  for (const auto& [key, path] : paths) {
    std::vector<DatasetValue> values;
    ASSERT_OK(reader->GetTrajectory(key, &values));
    std::vector<std::tuple<uint64_t, uint32_t, std::string>> found;
    for (auto& value : values) found.emplace_back(value.epoch, value.rank, value.value);
    ASSERT_EQ(found, path) << key;
  }
  std::vector<DatasetValue> values;
  EXPECT_CODE(reader->GetTrajectory("nobody's", &values), Code::kNotFound);
}

TEST_P(Dataset, HasEpochsWithoutPairsAndRanksWithout) {
  RunSimRanks(Ranks(3), [&](const std::shared_ptr<runtime::ContextState>& context) {
    const int rank = context->rank();
    auto writer = OpenWriter(context, SmallDataset(format()));
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->BeginEpoch(0));
    ASSERT_OK((*writer)->EndEpoch());
    ASSERT_OK((*writer)->BeginEpoch(1));
    if (rank == 1) ASSERT_OK((*writer)->Put("k", "v"));
    ASSERT_OK((*writer)->EndEpoch());
    ASSERT_OK((*writer)->Finish());
  });
  const auto reader = Reader();
  ASSERT_NE(reader, nullptr);
  ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, 0, {}));
  ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, 1, {{"k", {{1, "v"}}}}));
}

TEST_P(Dataset, TakesPairsLargerThanItsBuffersStraightAndOverTheGrid) {
  const std::string key(64 << 10, 'k');
  const std::string value(300'000, 'v');
  for (const int size : {2, 3, 4}) {
    disk_ = io::NewSimFileSystem();
    Truth truth;
    for (int rank = 0; rank < size; ++rank) {
      const auto by = static_cast<uint32_t>(rank);
      for (int i = 0; i < 3; ++i) {
        truth["big" + std::to_string(i)][by] = value + std::to_string(rank);
      }
      truth[key][by] = value;
    }
    RunSimRanks(Ranks(size), [&](const std::shared_ptr<runtime::ContextState>& context) {
      DatasetOptions options = SmallDataset(format());
      options.grid_ranks_min = 3;
      auto writer = OpenWriter(context, options);
      ASSERT_OK(writer.status());
      ASSERT_OK((*writer)->BeginEpoch(7));
      for (const auto& [put, by_rank] : truth) {
        ASSERT_OK((*writer)->Put(put, by_rank.at(static_cast<uint32_t>(context->rank()))));
      }
      ASSERT_OK((*writer)->EndEpoch());
    });
    const auto reader = Reader();
    ASSERT_NE(reader, nullptr);
    ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, 7, truth)) << size;
  }
}

TEST_P(Dataset, AReaderSeesNewEpochsAfterRefresh) {
  Write(2, {1});
  const auto reader = Reader();
  ASSERT_NE(reader, nullptr);
  Write(3, {2});
  EXPECT_THAT(NumbersOf(*reader), ElementsAre(1));
  ASSERT_OK(reader->Refresh());
  EXPECT_THAT(NumbersOf(*reader), ElementsAre(1, 2));
  ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, 2, TruthOf(2, 3, kPairCount)));
  ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, 1, TruthOf(1, 2, kPairCount)));
}

TEST_P(Dataset, AReaderOfLittleMemoryFindsTheSame) {
  Write(4, {1, 2, 3});
  auto reader = OpenReader(*disk_, kDatasetDirectory, {.cache_bytes = 0, .open_parts_max = 1});
  ASSERT_OK(reader.status());
  for (const uint64_t epoch : {3u, 1u}) {
    ASSERT_NO_FATAL_FAILURE(ExpectEpoch(**reader, epoch, TruthOf(epoch, 4, kPairCount)));
  }
}

TEST_P(Dataset, AnEpochThatWasNotEndedIsAbsent) {
  Write(2, {1});
  RunSimRanks(Ranks(2), [&](const std::shared_ptr<runtime::ContextState>& context) {
    const int rank = context->rank();
    auto writer = OpenWriter(context, SmallDataset(format()));
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->BeginEpoch(2));
    ASSERT_OK(PutAll(**writer, PairsOf(2, rank, 2, kPairCount)));
    EXPECT_CODE((*writer)->Finish(), Code::kInvalidArgument);
  });
  Write(2, {2});
  const auto reader = Reader();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(NumbersOf(*reader), ElementsAre(1, 2));
  for (const uint64_t epoch : {1u, 2u}) {
    ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, epoch, TruthOf(epoch, 2, kPairCount)));
  }
}

// Errors that every rank must report alike.
TEST_P(Dataset, RefusesWhatCannotBe) {
  Write(2, {5});
  const DatasetFormat other =
      format() == DatasetFormat::kBase ? DatasetFormat::kRibbon : DatasetFormat::kBase;
  RunSimRanks(Ranks(2), [&](const std::shared_ptr<runtime::ContextState>& context) {
    const int rank = context->rank();
    const auto open = [&](const std::string& name, const DatasetOptions& options) {
      return OpenWriter(context, options, name).status();
    };
    const DatasetOptions good = SmallDataset(format());
    EXPECT_CODE(open("steps", SmallDataset(other)), Code::kInvalidArgument);
    EXPECT_CODE(open(".hidden", good), Code::kInvalidArgument);
    EXPECT_CODE(open(rank == 0 ? "steps" : "other", good), Code::kInvalidArgument);
    DatasetOptions bad = good;
    if (rank == 1) bad.batch_bytes = 1;
    EXPECT_CODE(open("steps", bad), Code::kInvalidArgument);
    bad = good;
    if (rank == 1) bad.block_bytes = 1024;
    EXPECT_CODE(open("steps", bad), Code::kInvalidArgument);

    auto writer = OpenWriter(context, good);
    ASSERT_OK(writer.status());
    EXPECT_CODE(open("steps", good), Code::kBusy);
    EXPECT_THAT(open("steps", good).message(),
                testing::HasSubstr("to read meanwhile: DatasetReader, or quire dataset"));
    EXPECT_EQ((*writer)->LastEpoch(), 5u);
    EXPECT_CODE((*writer)->Put("k", "v"), Code::kInvalidArgument);
    EXPECT_CODE((*writer)->EndEpoch(), Code::kInvalidArgument);
    EXPECT_CODE((*writer)->BeginEpoch(5), Code::kInvalidArgument);
    ASSERT_OK((*writer)->BeginEpoch(rank == 0 ? 6u : 7u));
    EXPECT_CODE((*writer)->BeginEpoch(8), Code::kInvalidArgument);
    EXPECT_CODE((*writer)->Put("", "v"), Code::kInvalidArgument);
    EXPECT_CODE((*writer)->Put(std::string(65'537, 'k'), "v"), Code::kInvalidArgument);
    EXPECT_CODE((*writer)->EndEpoch(), Code::kInvalidArgument);  // they differ
    ASSERT_OK((*writer)->BeginEpoch(6));
    ASSERT_OK((*writer)->Put("k", "v"));
    ASSERT_OK((*writer)->EndEpoch());
    ASSERT_OK((*writer)->Finish());
    EXPECT_CODE((*writer)->BeginEpoch(9), Code::kInvalidArgument);
  });
  const auto reader = Reader();
  ASSERT_NE(reader, nullptr);
  ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, 6, {{"k", {{0, "v"}, {1, "v"}}}}));
}

TEST_P(Dataset, ItsMemoryIsTakenOfTheContextsAndGivenBack) {
  SimRanksOptions ranks = Ranks(2);
  ranks.memory_bytes = 64 << 20;
  RunSimRanks(ranks, [&](const std::shared_ptr<runtime::ContextState>& context) {
    DatasetOptions options;
    options.format = format();
    for (const char* name : {"one", "two"}) {
      auto writer = OpenWriter(context, options, name);
      ASSERT_OK(writer.status());
      const uint64_t planned = context->budget->planned_bytes();
      EXPECT_GT(planned, 8u << 20);
      EXPECT_LE(planned, 32u << 20);
      ASSERT_OK(WriteEpoch(**writer, 1, context->rank(), 2, 100));
      ASSERT_OK((*writer)->Finish());
      writer->reset();
      EXPECT_EQ(context->budget->planned_bytes(), 0u);
    }
    options.partition_bytes = 33 << 20;  // twice that does not fit
    const Status refused = OpenWriter(context, options, "three").status();
    EXPECT_CODE(refused, Code::kInvalidArgument);
    EXPECT_THAT(refused.message(), testing::HasSubstr("memory_bytes"));
    EXPECT_EQ(context->budget->planned_bytes(), 0u);
  });
  EXPECT_FALSE(*disk_->Exists("/repository/three"));
}

// Writing waits for the device at the end of an epoch, not once for every table.
TEST_P(Dataset, AnEpochIsSyncedOnceHoweverManyTablesItHas) {
  const auto counted = io::NewFaultFileSystem(*disk_);
  uint64_t syncs[2] = {};
  SimRanksOptions ranks = Ranks(1);
  ranks.file_system = [&](int /*rank*/) -> io::FileSystem* { return counted.get(); };
  RunSimRanks(ranks, [&](const std::shared_ptr<runtime::ContextState>& context) {
    auto writer = OpenWriter(context, SmallDataset(format()));
    ASSERT_OK(writer.status());
    for (const int large : {0, 1}) {
      counted->FailAt(io::kFaultSync, 1, 0, Code::kIo);
      ASSERT_OK(
          WriteEpoch(**writer, static_cast<uint64_t>(large) + 1, 0, 1, large == 0 ? 5 : 12000));
      syncs[large] = counted->calls();
    }
    EXPECT_GT((*writer)->Statistics().table_bytes, 3 * (64u << 10));
    ASSERT_OK((*writer)->Finish());
  });
  EXPECT_EQ(syncs[0], syncs[1]);
}

// A rank of an earlier job may live on for a while after its end: the writer of a new job is
// refused on all ranks until then.
TEST_P(Dataset, HasOneWriterOfEachPart) {
  Write(3, {1}, 50);
  for (const uint32_t orphan : {0u, 1u, 2u}) {
    auto lock = disk_->Lock(PartLockPath(kDatasetDirectory, orphan), "an orphan");
    ASSERT_OK(lock.status());
    RunSimRanks(Ranks(3), [&](const std::shared_ptr<runtime::ContextState>& context) {
      const Status status = OpenWriter(context, SmallDataset(format())).status();
      EXPECT_CODE(status, Code::kBusy);
      EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(orphan)));
      EXPECT_THAT(status.message(), HasSubstr("an orphan"));
    });
  }
  Write(3, {2}, 50);
}

TEST_P(Dataset, IsFreeForTheNextWriterOnceItIsFinished) {
  RunSimRanks(Ranks(2), [&](const std::shared_ptr<runtime::ContextState>& context) {
    auto first = OpenWriter(context, SmallDataset(format()));
    ASSERT_OK(first.status());
    ASSERT_OK(WriteEpoch(**first, 1, context->rank(), 2, 50));
    ASSERT_OK((*first)->Finish());
    auto second = OpenWriter(context, SmallDataset(format()));
    ASSERT_OK(second.status());
    ASSERT_OK(WriteEpoch(**second, 2, context->rank(), 2, 50));
    EXPECT_EQ((*first)->Statistics().pairs, 50u);
    ASSERT_OK((*second)->Finish());
  });
}

// The lock and the open files of a writer follow the directory; another dataset takes its name.
TEST_P(Dataset, AWriterWhoseDirectoryWasMovedPublishesNothingInTheOther) {
  const std::string moved = std::string(kDatasetDirectory) + "-old";
  RunSimRanks(Ranks(2), [&](const std::shared_ptr<runtime::ContextState>& context) {
    auto ours = OpenWriter(context, SmallDataset(format()));
    ASSERT_OK(ours.status());
    ASSERT_OK(WriteEpoch(**ours, 1, context->rank(), 2, 50));
    if (context->rank() == 0) {
      ASSERT_OK(disk_->Rename(kDatasetDirectory, moved));
    }
    ASSERT_OK(context->exchange->Barrier());
    auto theirs = OpenWriter(context, SmallDataset(format()));
    ASSERT_OK(theirs.status());
    ASSERT_OK(WriteEpoch(**theirs, 7, context->rank(), 2, 50));
    for (const uint64_t epoch : {2, 3}) {
      const Status refused = WriteEpoch(**ours, epoch, context->rank(), 2, 50);
      EXPECT_CODE(refused, Code::kBusy);
      EXPECT_THAT(refused.message(), HasSubstr("moved or removed"));
    }
    EXPECT_OK((*ours)->Finish());
    ASSERT_OK(WriteEpoch(**theirs, 8, context->rank(), 2, 50));
    ASSERT_OK((*theirs)->Finish());
  });
  const auto descriptor = ReadDescriptor(*disk_, kDatasetDirectory);
  ASSERT_OK(descriptor.status());
  const auto epochs = ReadEpochs(*disk_, kDatasetDirectory, descriptor->id);
  ASSERT_OK(epochs.status());
  ASSERT_EQ(epochs->size(), 2u);
  EXPECT_EQ((*epochs)[0].number, 7u);
  EXPECT_EQ((*epochs)[1].number, 8u);
  const auto ours = ReadEpochs(*disk_, moved, ReadDescriptor(*disk_, moved)->id);
  ASSERT_OK(ours.status());
  ASSERT_EQ(ours->size(), 1u);
}

TEST_P(Dataset, TheNumberOfFilesDoesNotGrowWithEpochs) {
  Write(2, {1}, 50);
  const auto before = disk_->List(kDatasetDirectory);
  ASSERT_OK(before.status());
  Write(2, {2, 3, 4, 5, 6}, 50);
  const auto after = disk_->List(kDatasetDirectory);
  ASSERT_OK(after.status());
  EXPECT_EQ(after->size(), before->size());
}

// Maps and the places of blocks are read once. From then on a rank that is asked costs one block.
TEST_P(Dataset, AQuestionReadsABlockOfEachRankAsked) {
  RunSimRanks(Ranks(2), [&](const std::shared_ptr<runtime::ContextState>& context) {
    DatasetOptions options = SmallDataset(format());
    options.table_bytes = options.partition_bytes = 1 << 20;  // one table, one map
    auto writer = OpenWriter(context, options);
    ASSERT_OK(writer.status());
    ASSERT_OK(WriteEpoch(**writer, 1, context->rank(), 2, kPairCount));
    ASSERT_OK((*writer)->Finish());
  });
  const auto reader = Reader();
  ASSERT_NE(reader, nullptr);
  std::vector<DatasetValue> values;
  for (const auto& [key, value] : PairsOf(1, 0, 2, 20)) ASSERT_OK(reader->Get(1, key, &values));
  for (const auto& [key, value] : PairsOf(1, 1, 2, 20)) ASSERT_OK(reader->Get(1, key, &values));
  uint64_t reads = 0;
  for (const auto& [key, expected] : TruthOf(1, 2, kPairCount)) {  // now that all is open
    const DatasetReaderStatistics before = reader->Statistics();
    ASSERT_OK(reader->Get(1, key, &values));
    const DatasetReaderStatistics after = reader->Statistics();
    const uint64_t of_values = format() == DatasetFormat::kPointer ? values.size() : 0;
    EXPECT_LE(after.reads - before.reads, after.partitions - before.partitions + of_values);
    reads += after.reads - before.reads;
  }
  EXPECT_GT(reads, 100u);
}

// Keys that one rank put are found with fewer blocks read, where a map names ranks by chance.
TEST_P(Dataset, StopsAtTheFirstMatchIfAskedTo) {
  constexpr int kRanks = 8;
  DatasetOptions options = SmallDataset(format());
  options.bloom_ranks = 6;
  Write(kRanks, {1, 2}, 150, options);
  const Truth truth = TruthOf(1, kRanks, 150);
  DatasetReaderStatistics did[2];
  std::vector<std::string> found[2];
  for (const bool first_match : {false, true}) {
    const auto reader = OpenReader(*disk_, kDatasetDirectory,
                                   {.cache_bytes = 0, .first_match = first_match});
    ASSERT_OK(reader.status());
    for (const auto& [key, by_rank] : truth) {
      if (by_rank.size() > 1) continue;
      std::vector<DatasetValue> values;
      ASSERT_OK((*reader)->Get(1, key, &values));
      ASSERT_EQ(values.size(), 1u);
      ASSERT_EQ(values[0].value, by_rank.begin()->second);
    }
    did[first_match] = (*reader)->Statistics();
  }
  EXPECT_EQ(did[1].queries, did[0].queries);
  EXPECT_LE(did[1].partitions, did[0].partitions);
  EXPECT_LE(did[1].reads, did[0].reads);
  if (format() != DatasetFormat::kBloom) return;
  EXPECT_GT(did[0].partitions, 4 * did[0].queries);  // of the 6 that were asked for
  EXPECT_LT(did[1].partitions, did[0].partitions * 3 / 4);
  EXPECT_LT(did[1].reads, did[0].reads * 9 / 10);
}

// The value is not specified, but it is one of those that were put.
TEST_P(Dataset, TheFirstMatchOfAKeyThatSeveralPutIsOneOfTheirs) {
  Write(4, {1, 2});
  const auto reader = OpenReader(*disk_, kDatasetDirectory, {.first_match = true});
  ASSERT_OK(reader.status());
  uint64_t shared = 0;
  for (const auto& [key, by_rank] : TruthOf(1, 4, kPairCount)) {
    std::vector<DatasetValue> values, path;
    std::vector<std::vector<DatasetValue>> many;
    ASSERT_OK((*reader)->Get(1, key, &values));
    ASSERT_OK((*reader)->GetMany(1, {key, key}, &many));
    ASSERT_OK((*reader)->GetTrajectory(key, &path));
    ASSERT_GE(path.size(), 1u);
    ASSERT_LE(path.size(), 2u);
    for (const auto& given : {values, many[0], many[1], std::vector{path[0]}}) {
      ASSERT_EQ(given.size(), 1u);
      ASSERT_TRUE(by_rank.contains(given[0].rank)) << key;
      ASSERT_EQ(given[0].value, by_rank.at(given[0].rank)) << key;
    }
    if (by_rank.size() > 1) ++shared;
  }
  EXPECT_GT(shared, 10u);
}

// The data of a rank that was given up, and is in another collective call, does not count as
// consent.
TEST(DatasetSteps, AreTakenByRanksAtTheEndOfThisEpochAlone) {
  const auto disk = io::NewSimFileSystem();
  SimRanksOptions ranks;
  ranks.rank_count = 2;
  ranks.file_system = [&](int) { return disk.get(); };
  RunSimRanks(ranks, [&](const std::shared_ptr<runtime::ContextState>& context) {
    auto writer = OpenWriter(context, SmallDataset(DatasetFormat::kRibbon));
    ASSERT_OK(writer.status());
    if (context->rank() == 1) {
      ASSERT_OK(runtime::Gather(*context->exchange, Status(), std::string(24, 'x')).status);
      return;
    }
    ASSERT_OK((*writer)->BeginEpoch(1));
    const Status ended = (*writer)->EndEpoch();
    EXPECT_THAT(ended.message(), HasSubstr("rank 1 is not at the end of this epoch"));
    EXPECT_THAT(ended.message(), HasSubstr("not known before the dataset is opened again"));
    EXPECT_FALSE((*writer)->LastEpoch().has_value());
    EXPECT_FALSE((*writer)->BeginEpoch(2).ok());
  });
  auto reader = OpenReader(*disk, kDatasetDirectory, {});
  ASSERT_OK(reader.status());
  EXPECT_TRUE((*reader)->Epochs().empty());
}

TEST(DatasetBloom, AReaderAsksAsManyRanksAsConfigured) {
  constexpr int kRanks = 8;
  constexpr int kCount = 400;
  uint64_t map_bytes[2] = {};
  for (const uint32_t bloom_ranks : {2u, 5u}) {
    const auto disk = io::NewSimFileSystem();
    SimRanksOptions ranks;
    ranks.rank_count = kRanks;
    ranks.file_system = [&](int) { return disk.get(); };
    RunSimRanks(ranks, [&](const std::shared_ptr<runtime::ContextState>& context) {
      DatasetOptions options;
      options.format = DatasetFormat::kBloom;
      options.bloom_ranks = 1;
      EXPECT_CODE(OpenWriter(context, options).status(), Code::kInvalidArgument);
      options.bloom_ranks = bloom_ranks;
      auto writer = OpenWriter(context, options);
      ASSERT_OK(writer.status());
      ASSERT_OK(WriteEpoch(**writer, 1, context->rank(), kRanks, kCount));
      if (context->rank() == 0) map_bytes[bloom_ranks / 4] = (*writer)->Statistics().map_bytes;
      ASSERT_OK((*writer)->Finish());
    });
    auto reader = OpenReader(*disk, kDatasetDirectory, {});
    ASSERT_OK(reader.status());
    const Truth truth = TruthOf(1, kRanks, kCount);
    uint64_t value_count = 0;
    for (const auto& [key, expected] : truth) {
      std::vector<DatasetValue> values;
      ASSERT_OK((*reader)->Get(1, key, &values));
      value_count += values.size();
    }
    const DatasetReaderStatistics statistics = (*reader)->Statistics();
    EXPECT_EQ(statistics.queries, truth.size());
    EXPECT_EQ(statistics.partitions, value_count + statistics.false_candidates);
    const double chance =
        static_cast<double>(statistics.false_candidates) / static_cast<double>(truth.size());
    EXPECT_NEAR(chance, bloom_ranks - 1, 0.3 * bloom_ranks);
  }
  EXPECT_GT(map_bytes[0], map_bytes[1]);
}

// Each thread of a rank puts a share of its pairs, while others read what was complete before.
TEST(DatasetThreads, PutAndReadAtOnce) {
  constexpr int kRanks = 2;
  constexpr int kThreads = 3;
  constexpr uint64_t kEpochs = 6;
  for (const DatasetFormat format : {DatasetFormat::kPointer, DatasetFormat::kRibbon}) {
    const auto disk = io::NewSimFileSystem();
    SimRanksOptions ranks;
    ranks.rank_count = kRanks;
    ranks.by_turns = false;
    ranks.file_system = [&](int) { return disk.get(); };
    RunSimRanks(ranks, [&](const std::shared_ptr<runtime::ContextState>& context) {
      auto writer = OpenWriter(context, SmallDataset(format));
      ASSERT_OK(writer.status());
      ASSERT_OK(context->exchange->Barrier());
      auto reader = OpenReader(*disk, kDatasetDirectory, {});
      ASSERT_OK(reader.status());
      for (uint64_t epoch = 1; epoch <= kEpochs; ++epoch) {
        ASSERT_OK((*writer)->BeginEpoch(epoch));
        ASSERT_OK((*reader)->Refresh());
        std::vector<std::thread> threads;
        for (int thread = 0; thread < kThreads; ++thread) {
          threads.emplace_back([&, thread] {
            for (int i = thread; i < kPairCount; i += kThreads) {
              const std::string key = std::to_string(context->rank()) + "." + std::to_string(i);
              ASSERT_OK((*writer)->Put(key, key + std::to_string(epoch)));
            }
          });
          threads.emplace_back([&, thread] {
            for (int i = thread; epoch > 1 && i < kPairCount; i += kThreads) {
              const std::string key = std::to_string(1 - context->rank()) + "." + std::to_string(i);
              std::vector<DatasetValue> values;
              ASSERT_OK((*reader)->GetTrajectory(key, &values));
              ASSERT_EQ(values.size(), epoch - 1);
              EXPECT_EQ(values.back().value, key + std::to_string(epoch - 1));
            }
          });
        }
        for (std::thread& thread : threads) thread.join();
        ASSERT_OK((*writer)->EndEpoch());
      }
      ASSERT_OK((*writer)->Finish());
    });
  }
}

TEST(DatasetReader, SaysWhereThereIsNoDataset) {
  const auto disk = io::NewSimFileSystem();
  EXPECT_CODE(OpenReader(*disk, "/nowhere", {}).status(), Code::kNotFound);
}

}  // namespace
}  // namespace quire::dataset::dataset_test
