// Readers trust only stores of the owner of the place, to which no other user can write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "io/files/file_system.h"
#include "stream/remote/remote_reader.h"
#include "stream/store/tending.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::stream::trust_test {
namespace {

using testing::HasSubstr;

constexpr uid_t kOwner = 12345;
constexpr uid_t kOther = 12346;

// A place with a finished store, which all may read, and only its owner may write to.
class Trust : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
    auto writer = OpenWriter(fs_, place_, "store", 0, StreamOptions{.log_bytes = 1 << 20});
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->Create("x", 8).status());
    ASSERT_OK((*writer)->Snapshot().status());
    ASSERT_OK((*writer)->Finish());
    writer->reset();
    Each(place_, [](const std::string& path, bool is_directory) {
      ASSERT_EQ(::chmod(path.c_str(), is_directory ? 0755 : 0644), 0);
    });
  }
  template <typename Do>
  void Each(const std::string& path, const Do& act) {
    act(path, true);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      act(entry.path().string(), entry.is_directory());
    }
  }
  void GiveTo(const std::string& path, uid_t user) {
    Each(path, [user](const std::string& one, bool) {
      ASSERT_EQ(::chown(one.c_str(), user, user), 0);
    });
  }
  Status Read() {
    QUIRE_ASSIGN_OR_RETURN(const auto reader,
                           OpenReader(fs_, place_, "store", 0, {.remote = false}));
    std::string bytes;
    return reader->Get("x", 0, &bytes);
  }
  Status ReadAs(uid_t user) {
    EXPECT_EQ(::seteuid(user), 0);
    const Status status = Read();
    EXPECT_EQ(::seteuid(0), 0);
    return status;
  }
  Status WriteAs(uid_t user) {
    EXPECT_EQ(::seteuid(user), 0);
    const Status status =
        OpenWriter(fs_, place_, "store", 0, StreamOptions{.log_bytes = 1 << 20}).status();
    EXPECT_EQ(::seteuid(0), 0);
    return status;
  }

  io::FileSystem& fs_ = io::PosixFileSystem();
  const test::TempDirectory directory_;
  const std::string place_ = directory_ / "place";
  const std::string store_ = place_ + "/store";
};

TEST_F(Trust, NothingThatAGroupOrAllMayWriteToIsRead) {
  ASSERT_OK(Read());
  for (const std::string& path : {place_, store_, store_ + "/log-0", store_ + "/gate-0",
                                  store_ + "/index-0", store_ + "/log-0.lock"}) {
    struct stat before;
    ASSERT_EQ(::stat(path.c_str(), &before), 0) << path;
    for (const mode_t more : {S_IWGRP, S_IWOTH}) {
      ASSERT_EQ(::chmod(path.c_str(), (before.st_mode & 07777) | more), 0);
      const Status status = Read();
      EXPECT_CODE(status, Code::kInvalidArgument) << path;
      EXPECT_THAT(status.message(), HasSubstr(path + " may be written by"));
      EXPECT_CODE(CheckLog(fs_, place_, "store", 0, true), Code::kInvalidArgument) << path;
    }
    ASSERT_EQ(::chmod(path.c_str(), before.st_mode & 07777), 0);
  }
  ASSERT_OK(Read());
}

TEST_F(Trust, AWriterTakesNoPlaceThatAGroupMayWriteTo) {
  ASSERT_EQ(::chmod(place_.c_str(), 0775), 0);
  const Status status =
      OpenWriter(fs_, place_, "store", 0, StreamOptions{.log_bytes = 1 << 20}).status();
  EXPECT_CODE(status, Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("chmod g-w " + place_));
}

TEST_F(Trust, AnotherUserReadsWhatTheOwnerOfThePlaceAloneCanWrite) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  GiveTo(place_, kOwner);
  EXPECT_OK(ReadAs(kOwner));
  EXPECT_OK(ReadAs(kOther));
  EXPECT_OK(WriteAs(kOwner));
  EXPECT_CODE(WriteAs(kOther), Code::kInvalidArgument);
}

TEST_F(Trust, AStoreThatAnotherUserPlantedIsNotRead) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  GiveTo(place_, kOwner);
  for (const std::string& path :
       {store_, store_ + "/ROOT", store_ + "/log-0", store_ + "/gate-0", store_ + "/index-0"}) {
    ASSERT_EQ(::chown(path.c_str(), kOther, kOther), 0);
    for (const uid_t reader : {kOwner, kOther, uid_t{0}}) {
      const Status status = ReadAs(reader);
      EXPECT_CODE(status, Code::kInvalidArgument) << path;
      EXPECT_THAT(status.message(), HasSubstr("belongs to user 12346")) << path;
    }
    ASSERT_EQ(::chown(path.c_str(), kOwner, kOwner), 0);
  }
  ASSERT_EQ(::chown(store_.c_str(), kOther, kOther), 0);
  EXPECT_CODE(WriteAs(kOwner), Code::kInvalidArgument);
}

}  // namespace
}  // namespace quire::stream::trust_test
