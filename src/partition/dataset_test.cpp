#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "io/sim_file_system.h"
#include "partition/dataset_reader.h"
#include "partition/dataset_testing.h"
#include "partition/files.h"
#include "tests/support/status_asserts.h"

namespace quire::partition {
namespace {

using runtime::RunSimRanks;
using runtime::SimRanksOptions;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr DatasetFormat kFormats[] = {DatasetFormat::kBase, DatasetFormat::kPointer,
                                      DatasetFormat::kBloom, DatasetFormat::kCuckoo,
                                      DatasetFormat::kRibbon};
constexpr int kCount = 900;

std::unique_ptr<DatasetReader> ReaderOf(io::FileSystem& fs) {
  auto reader = OpenReader(fs, kDatasetDirectory, {});
  EXPECT_TRUE(reader.ok()) << reader.status().ToString();
  return reader.ok() ? std::move(*reader) : nullptr;
}

// Format, by turns or by threads.
class Dataset : public testing::TestWithParam<std::tuple<DatasetFormat, bool>> {
 protected:
  DatasetFormat format() const { return std::get<0>(GetParam()); }
  SimRanksOptions Ranks(int size) {
    SimRanksOptions ranks;
    ranks.rank_count = size;
    ranks.by_turns = std::get<1>(GetParam());
    ranks.seed = ++seed_;
    ranks.file_system = [this](int) { return disk_.get(); };
    return ranks;
  }
  // A job of `size` ranks that writes these epochs.
  void Write(int size, const std::vector<uint64_t>& epochs, int count = kCount,
             uint32_t grid_ranks_min = 1024) {
    RunSimRanks(Ranks(size), [&](const std::shared_ptr<runtime::Core>& core) {
      const int rank = core->rank();
      DatasetOptions options = SmallDataset(format());
      options.grid_ranks_min = grid_ranks_min;
      auto writer = OpenWriter(core, options);
      ASSERT_OK(writer.status());
      for (const uint64_t epoch : epochs) {
        ASSERT_OK(WriteEpoch(**writer, epoch, rank, size, count));
        EXPECT_EQ((*writer)->LastEpoch(), epoch);
      }
      ASSERT_OK((*writer)->Finish());
    });
  }

  std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  uint64_t seed_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Formats, Dataset,
                         testing::Combine(testing::ValuesIn(kFormats), testing::Bool()),
                         [](const auto& about) {
                           return std::string(FormatName(std::get<0>(about.param))) +
                                  (std::get<1>(about.param) ? "Turns" : "Threads");
                         });

TEST_P(Dataset, FindsWhatWasPutAtAnyNumberOfRanks) {
  for (int size = 1; size <= 4; ++size) {
    disk_ = io::NewSimFileSystem();
    Write(size, {10, 20, 35});
    const auto reader = ReaderOf(*disk_);
    ASSERT_NE(reader, nullptr);
    EXPECT_THAT(NumbersOf(*reader), ElementsAre(10, 20, 35));
    for (const uint64_t epoch : {10u, 20u, 35u}) {
      ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, epoch, TruthOf(epoch, size, kCount)));
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
    const auto reader = ReaderOf(*disk_);
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
  const auto reader = ReaderOf(*disk_);
  ASSERT_NE(reader, nullptr);
  epoch = 0;
  for (const int size : sizes) {
    ++epoch;
    ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, epoch, TruthOf(epoch, size, kCount)));
    EXPECT_EQ(reader->Epochs()[epoch - 1].rank_count, static_cast<uint32_t>(size));
  }
}

TEST_P(Dataset, TellsTheTrajectoryOfAKey) {
  Write(3, {1, 2, 3, 4, 5});
  const auto reader = ReaderOf(*disk_);
  ASSERT_NE(reader, nullptr);
  std::map<std::string, std::vector<std::tuple<uint64_t, uint32_t, std::string>>> paths;
  for (uint64_t epoch = 1; epoch <= 5; ++epoch) {
    for (const auto& [key, by_rank] : TruthOf(epoch, 3, kCount)) {
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
  RunSimRanks(Ranks(3), [&](const std::shared_ptr<runtime::Core>& core) {
    const int rank = core->rank();
    auto writer = OpenWriter(core, SmallDataset(format()));
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->BeginEpoch(0));
    ASSERT_OK((*writer)->EndEpoch());
    ASSERT_OK((*writer)->BeginEpoch(1));
    if (rank == 1) ASSERT_OK((*writer)->Put("k", "v"));
    ASSERT_OK((*writer)->EndEpoch());
    ASSERT_OK((*writer)->Finish());
  });
  const auto reader = ReaderOf(*disk_);
  ASSERT_NE(reader, nullptr);
  ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, 0, {}));
  ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, 1, {{"k", {{1, "v"}}}}));
}

TEST_P(Dataset, TakesPairsLargerThanItsBuffers) {
  const std::string key(64 << 10, 'k');
  const std::string value(300'000, 'v');
  RunSimRanks(Ranks(2), [&](const std::shared_ptr<runtime::Core>& core) {
    const int rank = core->rank();
    auto writer = OpenWriter(core, SmallDataset(format()));
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->BeginEpoch(7));
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK((*writer)->Put("big" + std::to_string(i), value + std::to_string(rank)));
    }
    ASSERT_OK((*writer)->Put(key, value));
    ASSERT_OK((*writer)->EndEpoch());
  });
  const auto reader = ReaderOf(*disk_);
  ASSERT_NE(reader, nullptr);
  Truth truth;
  for (int i = 0; i < 3; ++i) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      truth["big" + std::to_string(i)][rank] = value + std::to_string(rank);
    }
  }
  truth[key] = {{0, value}, {1, value}};
  ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, 7, truth));
}

TEST_P(Dataset, AReaderSeesNewEpochsAfterRefresh) {
  Write(2, {1});
  const auto reader = ReaderOf(*disk_);
  ASSERT_NE(reader, nullptr);
  Write(3, {2});
  EXPECT_THAT(NumbersOf(*reader), ElementsAre(1));
  ASSERT_OK(reader->Refresh());
  EXPECT_THAT(NumbersOf(*reader), ElementsAre(1, 2));
  ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, 2, TruthOf(2, 3, kCount)));
  ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, 1, TruthOf(1, 2, kCount)));
}

TEST_P(Dataset, AReaderOfLittleMemoryFindsTheSame) {
  Write(4, {1, 2, 3});
  auto reader = OpenReader(*disk_, kDatasetDirectory, {.cache_bytes = 0, .open_parts_max = 1});
  ASSERT_OK(reader.status());
  for (const uint64_t epoch : {3u, 1u}) {
    ASSERT_NO_FATAL_FAILURE(ExpectEpoch(**reader, epoch, TruthOf(epoch, 4, kCount)));
  }
}

TEST_P(Dataset, WhatIsNotEndedIsNotThere) {
  Write(2, {1});
  RunSimRanks(Ranks(2), [&](const std::shared_ptr<runtime::Core>& core) {
    const int rank = core->rank();
    auto writer = OpenWriter(core, SmallDataset(format()));
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->BeginEpoch(2));
    ASSERT_OK(PutAll(**writer, PairsOf(2, rank, 2, kCount)));
    EXPECT_CODE((*writer)->Finish(), Code::kInvalidArgument);
  });
  Write(2, {2});
  const auto reader = ReaderOf(*disk_);
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(NumbersOf(*reader), ElementsAre(1, 2));
  for (const uint64_t epoch : {1u, 2u}) {
    ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, epoch, TruthOf(epoch, 2, kCount)));
  }
}

// What every rank must be told alike.
TEST_P(Dataset, RefusesWhatCannotBe) {
  Write(2, {5});
  const DatasetFormat other =
      format() == DatasetFormat::kBase ? DatasetFormat::kRibbon : DatasetFormat::kBase;
  RunSimRanks(Ranks(2), [&](const std::shared_ptr<runtime::Core>& core) {
    const int rank = core->rank();
    const auto open = [&](const std::string& name, const DatasetOptions& options) {
      return OpenWriter(core, options, name).status();
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

    auto writer = OpenWriter(core, good);
    ASSERT_OK(writer.status());
    EXPECT_CODE(open("steps", good), Code::kBusy);
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
  const auto reader = ReaderOf(*disk_);
  ASSERT_NE(reader, nullptr);
  ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, 6, {{"k", {{0, "v"}, {1, "v"}}}}));
}

TEST_P(Dataset, ItsMemoryIsTakenOfTheContextsAndGivenBack) {
  SimRanksOptions ranks = Ranks(2);
  ranks.memory_bytes = 64 << 20;
  RunSimRanks(ranks, [&](const std::shared_ptr<runtime::Core>& core) {
    DatasetOptions options;
    options.format = format();
    for (const char* name : {"one", "two"}) {
      auto writer = OpenWriter(core, options, name);
      ASSERT_OK(writer.status());
      const uint64_t planned = core->budget->planned_bytes();
      EXPECT_GT(planned, 8u << 20);
      EXPECT_LE(planned, 32u << 20);
      ASSERT_OK(WriteEpoch(**writer, 1, core->rank(), 2, 100));
      ASSERT_OK((*writer)->Finish());
      writer->reset();
      EXPECT_EQ(core->budget->planned_bytes(), 0u);
    }
    options.partition_bytes = 33 << 20;  // twice that does not fit
    const Status refused = OpenWriter(core, options, "three").status();
    EXPECT_CODE(refused, Code::kInvalidArgument);
    EXPECT_THAT(refused.message(), testing::HasSubstr("memory_bytes"));
    EXPECT_EQ(core->budget->planned_bytes(), 0u);
  });
  EXPECT_FALSE(*disk_->Exists("/repository/three"));
}

// One rank's n-th write or sync fails: no rank hangs, all are told the same, what was complete is,
// and the same epoch can be written then.
TEST_P(Dataset, AFailureOfOneRankEndsTheEpochOnAll) {
  constexpr int kMore = 50;  // pairs of the epoch that may fail: they must not be there then
  for (uint64_t nth = 1; nth <= 9; ++nth) {
    disk_ = io::NewSimFileSystem();
    Write(3, {1}, 300);
    const auto faulty = io::NewFaultFileSystem(*disk_);
    SimRanksOptions ranks = Ranks(3);
    ranks.file_system = [&](int rank) -> io::FileSystem* {
      return rank == static_cast<int>(nth % 3) ? static_cast<io::FileSystem*>(faulty.get())
                                               : disk_.get();
    };
    std::vector<Code> codes(3);
    RunSimRanks(ranks, [&](const std::shared_ptr<runtime::Core>& core) {
      const int rank = core->rank();
      auto writer = OpenWriter(core, SmallDataset(format()));
      ASSERT_OK(writer.status());
      if (rank == static_cast<int>(nth % 3)) {
        faulty->FailAt(io::kFaultWrite | io::kFaultSync | io::kFaultRename, nth, 1, Code::kNoSpace);
      }
      const Status first = WriteEpoch(**writer, 2, rank, 3, 300 + kMore);
      codes[static_cast<size_t>(rank)] = first.code();
      if (rank == static_cast<int>(nth % 3)) faulty->FailAt(io::kFaultAll, 1, 0, Code::kIo);
      if (!first.ok()) {
        ASSERT_EQ((*writer)->LastEpoch(), 1u);
        ASSERT_OK(WriteEpoch(**writer, 2, rank, 3, 300));
      }
      ASSERT_OK(WriteEpoch(**writer, 3, rank, 3, 300));
      ASSERT_OK((*writer)->Finish());
    });
    EXPECT_EQ(codes[0], codes[1]) << nth;
    EXPECT_EQ(codes[0], codes[2]) << nth;
    const auto reader = ReaderOf(*disk_);
    ASSERT_NE(reader, nullptr);
    EXPECT_THAT(NumbersOf(*reader), ElementsAre(1, 2, 3));
    for (const uint64_t epoch : {1u, 2u, 3u}) {
      const bool first = epoch == 2 && codes[0] == Code::kOk;
      const Truth truth = TruthOf(epoch, 3, first ? 300 + kMore : 300);
      ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, epoch, truth)) << nth;
      EXPECT_OK(reader->Verify(epoch));
    }
  }
}

// Writing waits for the device at the end of an epoch, not once for every table.
TEST_P(Dataset, AnEpochIsSyncedOnceHoweverManyTablesItHas) {
  const auto counted = io::NewFaultFileSystem(*disk_);
  uint64_t syncs[2] = {};
  SimRanksOptions ranks = Ranks(1);
  ranks.file_system = [&](int /*rank*/) -> io::FileSystem* { return counted.get(); };
  RunSimRanks(ranks, [&](const std::shared_ptr<runtime::Core>& core) {
    auto writer = OpenWriter(core, SmallDataset(format()));
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

// The program of one rank goes on where a Put has failed: the epoch is complete on no rank.
TEST_P(Dataset, APutThatFailedEndsTheEpochOnAll) {
  const std::string value(100'000, 'v');
  Write(3, {1}, 50);
  const auto faulty = io::NewFaultFileSystem(*disk_);
  SimRanksOptions ranks = Ranks(3);
  ranks.file_system = [&](int rank) -> io::FileSystem* {
    return rank == 1 ? static_cast<io::FileSystem*>(faulty.get()) : disk_.get();
  };
  RunSimRanks(ranks, [&](const std::shared_ptr<runtime::Core>& core) {
    const int rank = core->rank();
    auto writer = OpenWriter(core, SmallDataset(format()));
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
    // Where values are written in Put itself, it is Put that fails.
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
  const auto reader = ReaderOf(*disk_);
  ASSERT_NE(reader, nullptr);
  for (const uint64_t epoch : {1u, 2u}) {
    ASSERT_NO_FATAL_FAILURE(ExpectEpoch(*reader, epoch, TruthOf(epoch, 3, 50)));
  }
}

// Flips a byte at many places of every file: what is read is right, or a failure that names a file.
TEST_P(Dataset, DamageIsNamedAndNeverRead) {
  Write(2, {1, 2}, 120);
  const Truth truth = TruthOf(1, 2, 120);
  auto files = disk_->List(kDatasetDirectory);
  ASSERT_OK(files.status());
  int told = 0;
  for (const io::FileInfo& file : *files) {
    const std::string path = std::string(kDatasetDirectory) + "/" + file.name;
    const uint64_t step = std::max<uint64_t>(1, file.size / 40);
    for (uint64_t at = 0; at < file.size; at += step) {
      const auto flip = [&](std::string* bytes) { (*bytes)[at] ^= 0x40; };
      ASSERT_OK(disk_->Damage(path, flip));
      const auto reader = OpenReader(*disk_, kDatasetDirectory, {});
      Status status = reader.status();
      for (auto key = truth.begin(); status.ok() && key != truth.end(); ++key) {
        std::vector<DatasetValue> values;
        status = (*reader)->Get(1, key->first, &values);
        if (!status.ok()) break;
        ASSERT_EQ(values.size(), key->second.size()) << path << " at " << at;
        for (const DatasetValue& value : values) {
          ASSERT_EQ(value.value, key->second.at(value.rank)) << path << " at " << at;
        }
      }
      if (status.ok()) status = (*reader)->Verify(1);
      if (!status.ok()) {
        ++told;
        EXPECT_THAT(status.ToString(), HasSubstr(kDatasetDirectory)) << path << " at " << at;
        EXPECT_TRUE(status.code() == Code::kCorruption || status.code() == Code::kUnsupported)
            << path << " at " << at << ": " << status.ToString();
      }
      ASSERT_OK(disk_->Damage(path, flip));
    }
  }
  EXPECT_GT(told, 60);
}

TEST_P(Dataset, AMissingFileIsNamed) {
  Write(2, {1}, 50);
  auto files = disk_->List(kDatasetDirectory);
  ASSERT_OK(files.status());
  for (const io::FileInfo& file : *files) {
    if (file.name.rfind("part-", 0) != 0) continue;
    const std::string path = std::string(kDatasetDirectory) + "/" + file.name;
    ASSERT_OK(disk_->Rename(path, path + ".away"));
    const auto reader = ReaderOf(*disk_);
    ASSERT_NE(reader, nullptr);
    const Status status = reader->Verify(1);
    EXPECT_CODE(status, Code::kCorruption);
    EXPECT_THAT(status.ToString(), HasSubstr(path));
    ASSERT_OK(disk_->Rename(path + ".away", path));
  }
}

TEST(DatasetReader, SaysWhereThereIsNoDataset) {
  const auto disk = io::NewSimFileSystem();
  EXPECT_CODE(OpenReader(*disk, "/nowhere", {}).status(), Code::kNotFound);
}

}  // namespace
}  // namespace quire::partition
