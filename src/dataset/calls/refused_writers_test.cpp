// A refused writer of a dataset leaves no new file.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dataset/calls/dataset_testing.h"
#include "dataset/part/files.h"
#include "io/sim/sim_file_system.h"
#include "runtime/repository.h"
#include "tests/support/file_tree.h"
#include "tests/support/status_asserts.h"

namespace quire::dataset::refused_writers_test {
namespace {

using test::FileTree;

constexpr int kRanks = 2;

class RefusedWriters : public testing::Test {
 protected:
  RefusedWriters() { EXPECT_OK(disk_->MakeDirectory("/repository")); }
  void Run(const std::function<void(const std::shared_ptr<runtime::ContextState>&)>& program) {
    runtime::SimRanksOptions ranks;
    ranks.rank_count = kRanks;
    ranks.seed = ++seed_;
    ranks.file_system = [this](int) { return disk_.get(); };
    runtime::RunSimRanks(ranks, program);
  }
  void WriteDataset() {
    Run([](const std::shared_ptr<runtime::ContextState>& context) {
      auto writer = OpenWriter(context, SmallDataset(DatasetFormat::kPointer));
      ASSERT_OK(writer.status());
      ASSERT_OK(WriteEpoch(**writer, 1, context->rank(), kRanks, 50));
      ASSERT_OK((*writer)->Finish());
    });
    for (const std::string& path : FileTree(*disk_, kDatasetDirectory)) {
      if (path.ends_with(".lock") || path.ends_with("LOCK")) ASSERT_OK(disk_->Unlink(path));
    }
  }
  void ExpectRefused(Code code, DatasetFormat format = DatasetFormat::kPointer) {
    const std::vector<std::string> before = FileTree(*disk_, "/repository");
    Run([&](const std::shared_ptr<runtime::ContextState>& context) {
      const Status status = OpenWriter(context, SmallDataset(format)).status();
      EXPECT_EQ(status.code(), code) << status.ToString();
    });
    EXPECT_EQ(FileTree(*disk_, "/repository"), before);
  }

  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  uint64_t seed_ = 0;
};

// By another program that came first, made it, and was refused.
TEST_F(RefusedWriters, ARepositoryThatWasTakenBackIsMadeAgain) {
  Run([&](const std::shared_ptr<runtime::ContextState>& context) {
    if (context->rank() == 0) ASSERT_OK(disk_->RemoveDirectory("/repository"));
    ASSERT_OK(context->exchange->Barrier());
    EXPECT_OK(OpenWriter(context, SmallDataset(DatasetFormat::kPointer)).status());
  });
}

// The directory is there while this writer looks, and gone when it takes the lock in it.
TEST_F(RefusedWriters, ADirectoryThatIsTakenBackMeanwhileIsMadeAgain) {
  const std::unique_ptr<io::FaultFileSystem> watched = io::NewFaultFileSystem(*disk_);
  bool taken = false;
  watched->BeforeCalls(io::kFaultOpen, [&](const std::string& path) {
    if (path.ends_with("/LOCK") && !std::exchange(taken, true)) {
      ASSERT_OK(disk_->RemoveDirectory(kDatasetDirectory));
    }
  });
  runtime::SimRanksOptions ranks;
  ranks.file_system = [&](int) { return watched.get(); };
  runtime::RunSimRanks(ranks, [](const std::shared_ptr<runtime::ContextState>& context) {
    EXPECT_OK(OpenWriter(context, SmallDataset(DatasetFormat::kPointer)).status());
  });
  EXPECT_TRUE(taken);
}

TEST_F(RefusedWriters, ADirectoryWithADatabaseIsRefused) {
  ASSERT_OK(disk_->MakeDirectory(kDatasetDirectory));
  std::string path = kDatasetDirectory;
  ASSERT_OK(io::WriteFile(*disk_, path.append("/").append(runtime::kDatabaseFile), "a database"));
  ExpectRefused(Code::kInvalidArgument);
}

TEST_F(RefusedWriters, AnotherFormatIsRefused) {
  WriteDataset();
  ExpectRefused(Code::kInvalidArgument, DatasetFormat::kRibbon);
}

TEST_F(RefusedWriters, ADamagedDatasetIsRefused) {
  ASSERT_OK(disk_->MakeDirectory(kDatasetDirectory));
  ASSERT_OK(io::WriteFile(*disk_, std::string(kDatasetDirectory) + "/" + runtime::kDatasetFile,
                          "damaged"));
  ExpectRefused(Code::kCorruption);
}

TEST_F(RefusedWriters, ADatasetThatLacksAPartIsRefused) {
  WriteDataset();
  ASSERT_OK(disk_->Unlink(PartPath(kDatasetDirectory, 1)));
  ExpectRefused(Code::kCorruption);
}

TEST_F(RefusedWriters, WithoutRoomForTheBeginning) {
  disk_->SetFreeBytes(0);
  ExpectRefused(Code::kNoSpace);
}

}  // namespace
}  // namespace quire::dataset::refused_writers_test
