// Datasets whose partitions a function of the program picks (FilterKV, section 3.1), and what comes
// of a function that fails, is missing or is another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "dataset/calls/dataset_jobs_testing.h"
#include "dataset/calls/dataset_reader.h"
#include "dataset/part/files.h"
#include "io/sim/sim_file_system.h"
#include "runtime/sim_ranks_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::dataset::dataset_partitioner_test {
namespace {

using runtime::RunSimRanks;
using testing::HasSubstr;

constexpr char kName[] = "by range";
constexpr int kCount = 400;

// Ranges of keys: the digits have a partition each, the last has all from there on.
int ByRange(Slice key, int rank_count) {
  return std::clamp(key[0] - '0', 0, rank_count - 1);
}

int ByRangeBackwards(Slice key, int rank_count) {
  return rank_count - 1 - ByRange(key, rank_count);
}

class DatasetPartitioner : public DatasetJobs {
 protected:
  DatasetOptions Options(const Partitioner& partitioner = ByRange,
                         const std::string& name = kName) const {
    DatasetOptions options = SmallDataset(format());
    options.partitioner = partitioner;
    options.partitioner_name = name;
    return options;
  }
  Result<std::unique_ptr<DatasetReader>> Open(const Partitioner& partitioner,
                                              const std::string& name) {
    DatasetReaderOptions options;
    options.partitioner = partitioner;
    options.partitioner_name = name;
    return OpenReader(*disk_, kDatasetDirectory, options);
  }
  // Whether the reader has the function or not.
  void ExpectFound(const std::vector<int>& sizes, const std::vector<uint64_t>& epochs) {
    for (const bool with : {true, false}) {
      const auto reader = with ? Open(ByRange, kName) : Open({}, "");
      ASSERT_OK(reader.status());
      EXPECT_EQ((*reader)->partitioner_name(), kName);
      for (size_t i = 0; i < epochs.size(); ++i) {
        ASSERT_NO_FATAL_FAILURE(
            ExpectEpoch(**reader, epochs[i], TruthOf(epochs[i], sizes[i], kCount)))
            << (with ? "with" : "without") << " the function, " << sizes[i] << " ranks";
        EXPECT_OK((*reader)->Verify(epochs[i]));
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Formats, DatasetPartitioner, AllDatasetJobs(), NameOfJobs);

// In formats whose pairs, or keys, lie at their partition.
class DatasetRanges : public DatasetPartitioner {};
INSTANTIATE_TEST_SUITE_P(Formats, DatasetRanges,
                         testing::Combine(testing::Values(DatasetFormat::kBase,
                                                          DatasetFormat::kPointer),
                                          testing::Bool()),
                         NameOfJobs);

TEST_P(DatasetPartitioner, FindsWhatWasPutAtAnyNumberOfRanks) {
  const std::vector<int> sizes = {2, 4, 1, 3};
  for (size_t i = 0; i < sizes.size(); ++i) Write(sizes[i], {i + 1}, kCount, Options());
  ASSERT_NO_FATAL_FAILURE(ExpectFound(sizes, {1, 2, 3, 4}));
}

TEST_P(DatasetPartitioner, FindsWhatWasPutOverTheGrid) {
  for (const int size : {2, 3, 7}) {
    disk_ = io::NewSimFileSystem();
    DatasetOptions options = Options();
    options.grid_ranks_min = 2;
    Write(size, {1, 2}, kCount, options);
    ASSERT_NO_FATAL_FAILURE(ExpectFound({size, size}, {1, 2}));
  }
}

// The purpose of the function: a partition's range of keys is in one place.
TEST_P(DatasetRanges, APartitionHasTheKeysThatTheFunctionGivesIt) {
  Write(3, {1}, kCount, Options());
  const auto reader = Reader();
  ASSERT_NE(reader, nullptr);
  for (uint32_t partition = 0; partition < 3; ++partition) {
    const auto scan = reader->Scan(1, partition, partition + 1);
    ASSERT_TRUE(scan->Valid());
    for (; scan->Valid(); scan->Next()) {
      ASSERT_EQ(ByRange(scan->key(), 3), static_cast<int>(partition)) << scan->key();
    }
    ASSERT_OK(scan->status());
  }
}

TEST_P(DatasetRanges, AReaderWithTheFunctionAsksOnePartitionAndWithoutItAll) {
  Write(4, {1}, kCount, Options());
  for (const bool with : {true, false}) {
    const auto reader = with ? Open(ByRange, kName) : Open({}, "");
    ASSERT_OK(reader.status());
    std::vector<DatasetValue> values;
    EXPECT_CODE((*reader)->Get(1, "nobody's", &values), Code::kNotFound);
    EXPECT_EQ((*reader)->Statistics().partitions, with ? 1u : 4u);
  }
}

TEST_P(DatasetPartitioner, WritersKeepTheOneItWasMadeWith) {
  Write(2, {1}, kCount, Options());
  RunSimRanks(Ranks(2), [&](const std::shared_ptr<runtime::ContextState>& context) {
    const auto refusal = [&](const DatasetOptions& options, const std::string& name = "steps") {
      const Status status = OpenWriter(context, options, name).status();
      EXPECT_CODE(status, Code::kInvalidArgument);
      return std::string(status.message());
    };
    EXPECT_THAT(refusal(SmallDataset(format())), HasSubstr("\"by range\", not \"hash\""));
    EXPECT_THAT(refusal(Options(ByRange, "another")), HasSubstr("\"by range\", not \"another\""));
    EXPECT_THAT(refusal(Options(ByRange, ""), "new"), HasSubstr("needs a name"));
    EXPECT_THAT(refusal(Options(ByRange, "hash"), "new"), HasSubstr("needs a name"));
    EXPECT_THAT(refusal(Options({}, kName), "new"), HasSubstr("no partitioner is given"));
    EXPECT_THAT(refusal(Options(ByRange, "two\nlines"), "new"), HasSubstr("partitioner_name"));
    DatasetOptions differs = Options();
    if (context->rank() == 1) differs = SmallDataset(format());
    EXPECT_THAT(refusal(differs, "new"),
                HasSubstr("options differ between ranks: rank 0 has \"dataset_partitioner_name"));
    EXPECT_THAT(refusal(Options(), context->rank() == 0 ? "new" : "newer"),
                HasSubstr("names differ between ranks: rank 0 has \"new\", rank 1 has \"newer\"; "
                          "give the same on all ranks"));
  });
  EXPECT_FALSE(*disk_->Exists("/repository/new"));
}

TEST_P(DatasetPartitioner, ADatasetByTheHashIsGoneOnWithByTheHash) {
  Write(2, {1}, kCount);
  RunSimRanks(Ranks(2), [&](const std::shared_ptr<runtime::ContextState>& context) {
    const Status status = OpenWriter(context, Options()).status();
    EXPECT_CODE(status, Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("\"hash\", not \"by range\""));
  });
  const Status opened = Open(ByRange, kName).status();
  EXPECT_CODE(opened, Code::kInvalidArgument);
  EXPECT_THAT(opened.message(), HasSubstr("\"hash\", not \"by range\""));
}

TEST_P(DatasetPartitioner, AReaderRefusesAFunctionOfAnotherName) {
  Write(2, {1}, kCount, Options());
  const Status opened = Open(ByRange, "by letter").status();
  EXPECT_CODE(opened, Code::kInvalidArgument);
  EXPECT_THAT(opened.message(), HasSubstr("\"by range\", not \"by letter\""));
  EXPECT_CODE(Open(ByRange, "").status(), Code::kInvalidArgument);
  EXPECT_CODE(Open({}, kName).status(), Code::kInvalidArgument);
}

TEST_P(DatasetPartitioner, VerifyFindsAnotherFunctionOfTheName) {
  Write(3, {1}, kCount, Options());
  const auto reader = Open(ByRangeBackwards, kName);
  ASSERT_OK(reader.status());
  const Status verified = (*reader)->Verify(1);
  EXPECT_CODE(verified, Code::kInvalidArgument);
  EXPECT_THAT(verified.message(), HasSubstr("by the partitioner \"by range\""));
}

int FailsForSome(Slice key, int rank_count) {
  if (key == "throws") throw std::out_of_range("a key of another program");
  if (key == "no rank") return rank_count;
  if (key == "negative") return -1;
  return ByRange(key, rank_count);
}

// The pair alone is not put: on whatever rank, the epoch goes on.
TEST_P(DatasetPartitioner, AFunctionThatFailsFailsThatPut) {
  RunSimRanks(Ranks(2), [&](const std::shared_ptr<runtime::ContextState>& context) {
    auto writer = OpenWriter(context, Options(FailsForSome));
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->BeginEpoch(1));
    if (context->rank() == 1) {
      const Status threw = (*writer)->Put("throws", "v");
      EXPECT_CODE(threw, Code::kInvalidArgument);
      EXPECT_THAT(threw.message(), HasSubstr("the partitioner threw an exception: a key of"));
      const Status no_rank = (*writer)->Put("no rank", "v");
      EXPECT_CODE(no_rank, Code::kInvalidArgument);
      EXPECT_THAT(no_rank.message(), HasSubstr("the partitioner answers rank 2 of 2"));
      EXPECT_CODE((*writer)->Put("negative", "v"), Code::kInvalidArgument);
    }
    ASSERT_OK((*writer)->Put("k", "v"));
    ASSERT_OK((*writer)->EndEpoch());
    ASSERT_OK((*writer)->Finish());
  });
  const auto reader = Open(FailsForSome, kName);
  ASSERT_OK(reader.status());
  std::vector<DatasetValue> values;
  std::vector<std::vector<DatasetValue>> many;
  for (const Status& status :
       {(*reader)->Get(1, "throws", &values), (*reader)->GetTrajectory("throws", &values),
        (*reader)->GetMany(1, {"k", "throws"}, &many)}) {
    EXPECT_CODE(status, Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("the partitioner threw an exception: a key of"));
  }
  ASSERT_NO_FATAL_FAILURE(ExpectEpoch(**reader, 1, {{"k", {{0, "v"}, {1, "v"}}}}));
}

// If memory runs out in Put, the epoch cannot be completed, but the next one can.
TEST_P(DatasetPartitioner, AFunctionWithoutMemoryFailsTheEpochOnAllRanks) {
  RunSimRanks(Ranks(2), [&](const std::shared_ptr<runtime::ContextState>& context) {
    const auto starved = [](Slice key, int rank_count) {
      if (key == "big") throw std::bad_alloc();
      return ByRange(key, rank_count);
    };
    auto writer = OpenWriter(context, Options(starved));
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->BeginEpoch(1));
    if (context->rank() == 0) {
      EXPECT_CODE((*writer)->Put("big", "v"), Code::kOutOfMemory);
    }
    EXPECT_CODE((*writer)->EndEpoch(), Code::kOutOfMemory);
    ASSERT_OK(WriteEpoch(**writer, 1, context->rank(), 2, kCount));
    ASSERT_OK((*writer)->Finish());
  });
  ASSERT_NO_FATAL_FAILURE(ExpectFound({2}, {1}));
}

TEST_P(DatasetPartitioner, CallsInsideTheFunctionAreRefused) {
  RunSimRanks(Ranks(2), [&](const std::shared_ptr<runtime::ContextState>& context) {
    DatasetWriter* inner = nullptr;
    std::vector<Status> told;
    auto writer = OpenWriter(context, Options([&](Slice key, int rank_count) {
                               told = {inner->Put("other", "v"), inner->EndEpoch(),
                                       inner->BeginEpoch(2), inner->Finish()};
                               return ByRange(key, rank_count);
                             }));
    ASSERT_OK(writer.status());
    inner = writer->get();
    ASSERT_OK(inner->BeginEpoch(1));
    ASSERT_OK(inner->Put("k", "v"));
    ASSERT_EQ(told.size(), 4u);
    for (const Status& status : told) {
      EXPECT_CODE(status, Code::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr("called inside a function"));
    }
    ASSERT_OK(inner->EndEpoch());
    ASSERT_OK(inner->Finish());
  });
  DatasetReader* inner = nullptr;
  Status told;
  const auto reader = Open(
      [&](Slice key, int rank_count) {
        std::vector<DatasetValue> values;
        told = inner->Get(1, key, &values);
        return ByRange(key, rank_count);
      },
      kName);
  ASSERT_OK(reader.status());
  inner = reader->get();
  std::vector<DatasetValue> values;
  ASSERT_OK(inner->Get(1, "k", &values));
  EXPECT_EQ(values.size(), 2u);
  EXPECT_THAT(told.message(), HasSubstr("called inside a function"));
}

// No other thread waits for a function that takes its time.
TEST_P(DatasetPartitioner, AFunctionThatBlocksHoldsUpNoOtherThread) {
  RunSimRanks(Ranks(1), [&](const std::shared_ptr<runtime::ContextState>& context) {
    std::promise<void> called, released;
    auto writer = OpenWriter(context, Options([&](Slice key, int rank_count) {
                               if (key == "slow") {
                                 called.set_value();
                                 released.get_future().wait();
                               }
                               return ByRange(key, rank_count);
                             }));
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->BeginEpoch(1));
    Status slow;
    std::thread other([&] { slow = (*writer)->Put("slow", "v"); });
    called.get_future().wait();
    EXPECT_OK((*writer)->Put("quick", "v"));
    EXPECT_EQ((*writer)->Statistics().pairs, 1u);
    released.set_value();
    other.join();
    ASSERT_OK(slow);
    ASSERT_OK((*writer)->EndEpoch());
    ASSERT_OK((*writer)->Finish());
  });
  const auto reader = Reader();
  ASSERT_NE(reader, nullptr);
  ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, 1, {{"quick", {{0, "v"}}}, {"slow", {{0, "v"}}}}));
}

// A dataset that an earlier library can read is written in its version; it refuses one that it
// would misread.
TEST(DatasetDescriptor, HasVersionTwoOnlyWithAPartitioner) {
  DatasetDescriptor descriptor;
  descriptor.id = 7;
  EXPECT_THAT(EncodeDescriptor(descriptor), testing::StartsWith("quire dataset 1\n"));
  EXPECT_EQ(DecodeDescriptor(EncodeDescriptor(descriptor), "DATASET")->partitioner, "hash");
  descriptor.partitioner = "by = range";
  const std::string text = EncodeDescriptor(descriptor);
  EXPECT_THAT(text, testing::StartsWith("quire dataset 2\n"));
  EXPECT_EQ(DecodeDescriptor(text, "DATASET")->partitioner, "by = range");
  descriptor.partitioner = std::string(256, 'x');
  EXPECT_CODE(DecodeDescriptor(EncodeDescriptor(descriptor), "DATASET").status(),
              Code::kCorruption);
}

}  // namespace
}  // namespace quire::dataset::dataset_partitioner_test
