// Files that are not Quire's, in its directories: NFS leaves a .nfs* where a file was removed that
// a process still has open, and they stay when a user removes what is around them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "quire/database.h"
#include "quire/dataset.h"
#include "quire/stream.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire {
namespace {

constexpr char kStray[] = "/.nfs00000000018c2a7700000002";

class FilesOfOthers : public testing::Test {
 protected:
  void SetUp() override {
    auto context = Context::OpenSerial(repository());
    ASSERT_OK(context.status());
    context_ = *std::move(context);
  }
  std::string repository() const { return root_ / "repository"; }
  std::string copies() const { return root_ / "copies"; }
  std::string place() const { return root_ / "place"; }

  static void Leave(const std::string& directory) {
    std::ofstream(directory + kStray) << "removed, and still open";
  }
  // In `directory` and in all below it.
  static void LeaveEverywhere(const std::string& directory) {
    std::vector<std::string> directories = {directory};
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
      if (entry.is_directory()) directories.push_back(entry.path());
    }
    for (const std::string& one : directories) Leave(one);
  }
  // As a user removes it with `rm -r`: the directory stays, for the stray file cannot go.
  static void RemoveAllElse(const std::string& directory) {
    std::filesystem::remove_all(directory);
    std::filesystem::create_directory(directory);
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all);
    Leave(directory);
  }

  std::unique_ptr<Context> context_;

 private:
  test::TempDirectory root_;
};

TEST_F(FilesOfOthers, AreLeftAloneByAStream) {
  StreamOptions options;
  options.log_bytes = 1 << 20;
  const auto write = [&] {
    auto writer = StreamWriter::Open(place(), "store", 0, options);
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->Create("object", 100).status());
    ASSERT_OK((*writer)->Put("object").status());
    ASSERT_OK((*writer)->Finish());
  };
  const auto expect_versions = [&](size_t count) {
    auto reader = StreamReader::Open(place(), "store", 0);
    ASSERT_OK(reader.status());
    const auto versions = (*reader)->Versions("object");
    ASSERT_OK(versions.status());
    EXPECT_EQ(versions->size(), count);
    EXPECT_EQ(*StreamStores(place()), std::vector<std::string>{"store"});
    EXPECT_EQ(*StreamRanks(place(), "store"), std::vector<uint32_t>{0});
  };
  write();
  LeaveEverywhere(place());
  expect_versions(1);
  write();
  expect_versions(2);
  RemoveAllElse(place() + "/store");
  EXPECT_CODE(StreamReader::Open(place(), "store", 0).status(), Code::kNotFound);
  write();
  expect_versions(1);
  EXPECT_TRUE(std::filesystem::exists(place() + "/store" + kStray));
}

TEST_F(FilesOfOthers, AreLeftAloneByADataset) {
  const std::string directory = repository() + "/set";
  const auto write = [&](uint64_t epoch) {
    auto writer = DatasetWriter::Open(*context_, "set");
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->BeginEpoch(epoch));
    ASSERT_OK((*writer)->Put("key", "value"));
    ASSERT_OK((*writer)->EndEpoch());
    ASSERT_OK((*writer)->Finish());
  };
  const auto expect_epochs = [&](size_t count) {
    auto reader = DatasetReader::Open(directory);
    ASSERT_OK(reader.status());
    ASSERT_EQ((*reader)->Epochs().size(), count);
    for (const DatasetEpoch& epoch : (*reader)->Epochs()) {
      EXPECT_OK((*reader)->Verify(epoch.number));
    }
  };
  write(1);
  LeaveEverywhere(directory);
  expect_epochs(1);
  write(2);
  expect_epochs(2);
  RemoveAllElse(directory);
  EXPECT_CODE(DatasetReader::Open(directory).status(), Code::kNotFound);
  write(1);
  expect_epochs(1);
  EXPECT_TRUE(std::filesystem::exists(directory + kStray));
}

Status Follow(const Result<std::unique_ptr<Event>>& event) {
  return event.ok() ? (*event)->Wait() : event.status();
}

TEST_F(FilesOfOthers, KeepNoCheckpointFromBeingReadReplacedOrMadeAgain) {
  auto db = context_->Open("db", {});
  ASSERT_OK(db.status());
  CheckpointOptions one;
  one.keep = 1;
  ASSERT_OK((*db)->Put("key", "first"));
  ASSERT_OK(Follow((*db)->Checkpoint(copies(), one)));
  LeaveEverywhere(copies());
  ASSERT_OK((*db)->Put("key", "second"));
  ASSERT_OK(Follow((*db)->Checkpoint(copies(), one)));
  EXPECT_FALSE(std::filesystem::exists(copies() + "/db/1"));
  LeaveEverywhere(copies());
  ASSERT_OK((*db)->Put("key", "third"));
  ASSERT_OK((*db)->Close());

  RestartOptions replacing;
  replacing.replace = true;
  ASSERT_OK(Follow(context_->Restart(copies(), "db", replacing)));
  db = context_->Open("db", {});
  ASSERT_OK(db.status());
  std::string value;
  ASSERT_OK((*db)->Get("key", &value));
  EXPECT_EQ(value, "second");

  RemoveAllElse(copies() + "/db/2");
  EXPECT_OK(Follow((*db)->Checkpoint(copies(), one)));
  RemoveAllElse(copies() + "/db");
  EXPECT_OK(Follow((*db)->Checkpoint(copies(), one)));
  EXPECT_TRUE(std::filesystem::exists(copies() + "/db" + kStray));
  EXPECT_OK((*db)->Close());
  ASSERT_OK(Follow(context_->Restart(copies(), "db", replacing)));
}

TEST_F(FilesOfOthers, KeepNoDatabaseFromBeingMadeAgain) {
  const std::string directory = repository() + "/db";
  for (int i = 0; i < 2; ++i) {
    auto db = context_->Open("db", {});
    ASSERT_OK(db.status());
    ASSERT_OK((*db)->Put("key", "value"));
    ASSERT_OK((*db)->Close());
    LeaveEverywhere(directory);
    ASSERT_OK(context_->Destroy("db"));
  }
  RemoveAllElse(directory);
  DatabaseOptions options;
  options.mode = OpenMode::kMustExist;
  EXPECT_CODE(context_->Open("db", options).status(), Code::kNotFound);
  auto db = context_->Open("db", {});
  ASSERT_OK(db.status());
  EXPECT_OK((*db)->Close());
  EXPECT_TRUE(std::filesystem::exists(directory + kStray));
}

}  // namespace
}  // namespace quire
