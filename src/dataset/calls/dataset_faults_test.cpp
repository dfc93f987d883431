// A device that fails under the writers of a dataset, at any call: all ranks receive the same
// error, and can go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "dataset/calls/dataset_jobs_testing.h"
#include "io/sim/sim_file_system.h"
#include "tests/support/status_asserts.h"

namespace quire::dataset::dataset_faults_test {
namespace {

using runtime::RunSimRanks;
using runtime::SimRanksOptions;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kRanks = 3;
constexpr int kFew = 300;
constexpr int kMore = 50;  // pairs of an epoch that failed: they must not be there then

class DatasetFaults : public DatasetJobs {
 protected:
  // Rank `faulty` uses `fs`, the others the disk.
  SimRanksOptions RanksWith(int faulty, io::FileSystem* fs) {
    SimRanksOptions ranks = Ranks(kRanks);
    ranks.file_system = [this, faulty, fs](int rank) -> io::FileSystem* {
      return rank == faulty ? fs : disk_.get();
    };
    return ranks;
  }

  static constexpr uint32_t kChanges = io::kFaultWrite | io::kFaultSync | io::kFaultRename;

  static bool IsOfADirectory(const Status& status) {
    return status.message().find("sync directory") != std::string::npos;
  }

  // The n-th call of `ops` of one rank fails amid the second of three epochs. That epoch is written
  // again, by the same job or by the next one; then the machines lose their power. False: the rank
  // has not so many calls.
  bool FailOnce(int faulty, uint64_t nth, uint32_t grid_ranks_min, uint32_t ops = kChanges,
                Code code = Code::kNoSpace) {
    disk_ = io::NewSimFileSystem();
    Write(kRanks, {1}, kFew, grid_ranks_min);
    const auto fs = io::NewFaultFileSystem(*disk_);
    std::array<Status, kRanks> told;
    bool failed = false;
    RunSimRanks(RanksWith(faulty, fs.get()),
                [&](const std::shared_ptr<runtime::ContextState>& context) {
                  const int rank = context->rank();
                  DatasetOptions options = SmallDataset(format());
                  options.grid_ranks_min = grid_ranks_min;
                  auto writer = OpenWriter(context, options);
                  ASSERT_OK(writer.status());
                  if (rank == faulty) {
                    fs->FailAt(ops, nth, 1, code);
                  }
                  Status& first = told[static_cast<size_t>(rank)];
                  first = WriteEpoch(**writer, 2, rank, kRanks, kFew + kMore);
                  if (rank == faulty) {
                    failed = fs->failures() > 0;
                    fs->FailAt(io::kFaultAll, 1, 0, Code::kIo);
                  }
                  if (!first.ok()) {
                    ASSERT_EQ((*writer)->LastEpoch(), 1u);
                    if (nth % 2 == 0 && !IsOfADirectory(first)) return;
                    ASSERT_OK(WriteEpoch(**writer, 2, rank, kRanks, kFew));
                  }
                  ASSERT_OK(WriteEpoch(**writer, 3, rank, kRanks, kFew));
                  ASSERT_OK((*writer)->Finish());
                });
    // After a failed sync of a directory the outcome is unknown: the code is kIo, whatever the
    // cause.
    const bool directory = IsOfADirectory(told[0]);
    const Code expected = directory ? Code::kIo : code;
    for (const Status& status : told) {
      EXPECT_EQ(status.code(), failed ? expected : Code::kOk) << status.ToString();
    }
    if (failed && nth % 2 == 0 && !directory) Write(kRanks, {2, 3}, kFew, grid_ranks_min);
    disk_->Restart(io::CrashKind::kPower, nth);
    ExpectThree(failed ? kFew : kFew + kMore);
    return failed;
  }

  void ExpectThree(int second_count) {
    const auto reader = Reader();
    ASSERT_NE(reader, nullptr);
    ASSERT_THAT(NumbersOf(*reader), ElementsAre(1, 2, 3));
    for (const uint64_t epoch : {1u, 2u, 3u}) {
      const Truth truth = TruthOf(epoch, kRanks, epoch == 2 ? second_count : kFew);
      ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, epoch, truth));
      EXPECT_OK(reader->Verify(epoch));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Formats, DatasetFaults, AllDatasetJobs(), NameOfJobs);

// One rank's n-th call fails, for each rank and every n: no rank hangs, all ranks receive the same
// error, complete epochs stay complete, and the same epoch can then be written. (With threads,
// whose order differs each time, only some n are tried.)
TEST_P(DatasetFaults, AFailureOfOneRankEndsTheEpochOnAll) {
  for (const uint32_t grid_ranks_min : {1024u, 2u}) {
    for (int faulty = 0; faulty < kRanks; ++faulty) {
      uint64_t nth = 1;
      while (FailOnce(faulty, nth, grid_ranks_min)) nth += by_turns() ? 1 : 4;
      EXPECT_GT(nth, 4u) << "rank " << faulty;
      ASSERT_FALSE(HasFailure()) << "rank " << faulty << ", call " << nth << ", grid from "
                                 << grid_ranks_min;
    }
  }
}

TEST_P(DatasetFaults, AFileThatCannotBeOpenedOrMappedEndsTheEpochOnAll) {
  uint64_t calls = 0;  // few: rank 0 alone opens a file in an epoch
  for (int faulty = 0; faulty < kRanks; ++faulty) {
    uint64_t nth = 1;
    while (FailOnce(faulty, nth, 1024, io::kFaultOpen | io::kFaultMap, Code::kOutOfMemory)) ++nth;
    ASSERT_FALSE(HasFailure()) << "rank " << faulty << ", call " << nth;
    calls += nth - 1;
  }
  EXPECT_GT(calls, 0u);
}

// One rank's program goes on after a failed Put: the epoch is complete on no rank.
TEST_P(DatasetFaults, APutThatFailedEndsTheEpochOnAll) {
  const std::string value(100'000, 'v');
  Write(3, {1}, 50);
  const auto faulty = io::NewFaultFileSystem(*disk_);
  RunSimRanks(RanksWith(1, faulty.get()),
              [&](const std::shared_ptr<runtime::ContextState>& context) {
                const int rank = context->rank();
                auto writer = OpenWriter(context, SmallDataset(format()));
                ASSERT_OK(writer.status());
                ASSERT_OK((*writer)->BeginEpoch(2));
                if (rank == 1) faulty->FailAt(io::kFaultWrite, 1, 1, Code::kNoSpace);
                Status first;
                for (int i = 0; i < 8; ++i) {
                  const Status put = (*writer)->Put("key" + std::to_string(i), value);
                  EXPECT_EQ(put.code(), first.ok() ? put.code() : first.code());
                  EXPECT_TRUE(put.ok() || rank == 1) << put.ToString();
                  if (first.ok()) first = put;
                }
                // If values are written in Put itself, Put fails.
                if (format() == DatasetFormat::kPointer) {
                  EXPECT_EQ(first.ok(), rank != 1);
                }
                const Status ended = (*writer)->EndEpoch();
                EXPECT_CODE(ended, Code::kNoSpace);
                EXPECT_THAT(ended.message(), HasSubstr("rank 1: "));
                ASSERT_EQ((*writer)->LastEpoch(), 1u);
                ASSERT_OK(WriteEpoch(**writer, 2, rank, 3, 50));
                ASSERT_OK((*writer)->Finish());
              });
  const auto reader = Reader();
  ASSERT_NE(reader, nullptr);
  for (const uint64_t epoch : {1u, 2u}) {
    ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, epoch, TruthOf(epoch, 3, 50)));
  }
}

}  // namespace
}  // namespace quire::dataset::dataset_faults_test
