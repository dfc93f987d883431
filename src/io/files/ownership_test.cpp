// Directories and files to which others may write, or that belong to others.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "io/files/file_system.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::io::ownership_test {
namespace {

using testing::HasSubstr;

constexpr uid_t kOther = 12345;

class Ownership : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
    ASSERT_OK(WriteFile(fs_, file_, "bytes"));
    ASSERT_OK(fs_.MakeDirectory(inner_));
  }
  void SetMode(const std::string& path, mode_t mode) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0) << path;
  }

  FileSystem& fs_ = PosixFileSystem();
  const test::TempDirectory directory_;
  const std::string file_ = directory_ / "file";
  const std::string inner_ = directory_ / "inner";
};

TEST_F(Ownership, ADirectoryThatAGroupOrAllMayWriteToIsRefusedWithTheCommandThatMendsIt) {
  struct Case {
    mode_t mode;
    std::string who;
    std::string command;
  };
  for (const Case& one : {Case{0720, "its group", "chmod g-w " + inner_},
                          Case{0775, "its group", "chmod g-w " + inner_},
                          Case{0702, "everybody", "chmod go-w " + inner_},
                          Case{01777, "everybody", "chmod go-w " + inner_}}) {
    SetMode(inner_, one.mode);
    for (const Status& status : {fs_.MakeDirectory(inner_), fs_.CheckDirectory(inner_),
                                 fs_.SoleWriter(inner_).status()}) {
      EXPECT_CODE(status, Code::kInvalidArgument) << one.mode;
      EXPECT_THAT(status.message(), HasSubstr("may be written by " + one.who));
      EXPECT_THAT(status.message(), HasSubstr(one.command));
    }
  }
  for (const mode_t mode : {0700, 0750, 0755, 0711}) {
    SetMode(inner_, mode);
    EXPECT_OK(fs_.MakeDirectory(inner_));
    EXPECT_OK(fs_.CheckDirectory(inner_));
  }
}

TEST_F(Ownership, SoleWriterNamesTheOnlyUserThatMayWriteAFile) {
  const auto writer = fs_.SoleWriter(file_);
  ASSERT_OK(writer.status());
  EXPECT_EQ(*writer, ::geteuid());
  EXPECT_CODE(fs_.SoleWriter(directory_ / "none").status(), Code::kNotFound);
  SetMode(file_, 0664);
  EXPECT_CODE(fs_.SoleWriter(file_).status(), Code::kInvalidArgument);
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  SetMode(file_, 0644);
  ASSERT_EQ(::chown(file_.c_str(), kOther, kOther), 0);
  EXPECT_EQ(*fs_.SoleWriter(file_), kOther);
}

TEST_F(Ownership, AFileThatOthersMayWriteIsNotWritten) {
  for (const mode_t mode : {0660, 0602, 0666}) {
    SetMode(file_, mode);
    const Status status = fs_.Open(file_, FileOpenMode::kReadWrite).status();
    EXPECT_CODE(status, Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("chmod -R g"));
    EXPECT_CODE(fs_.Map(file_, 5, MapMode::kReadWrite).status(), Code::kInvalidArgument);
    EXPECT_CODE(fs_.Lock(file_, "holder").status(), Code::kInvalidArgument);
    // A user may read an archive that only another user can mend.
    EXPECT_OK(ReadFile(fs_, file_, 100).status());
  }
  SetMode(file_, 0644);
  EXPECT_OK(fs_.Open(file_, FileOpenMode::kReadWrite).status());
}

TEST_F(Ownership, AFileOfAnotherUserIsRefusedForWritingAndNotChanged) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  SetMode(file_, 0666);  // its owner lets all write: a trap
  SetMode(directory_.path(), 0777);
  ASSERT_EQ(::seteuid(kOther), 0);
  const std::vector<Status> told = {fs_.Open(file_, FileOpenMode::kReadWrite).status(),
                                    fs_.Open(file_, FileOpenMode::kReadWriteCreate).status(),
                                    fs_.Map(file_, 5, MapMode::kReadWrite).status(),
                                    fs_.Lock(file_, "holder").status()};
  const auto trapped = ReadFile(fs_, file_, 100);
  const auto own = fs_.Open(directory_ / "own", FileOpenMode::kReadWriteCreate);
  ASSERT_EQ(::seteuid(0), 0);
  for (const Status& status : told) {
    EXPECT_CODE(status, Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(file_ + " belongs to user root (0)"));
  }
  ASSERT_OK(trapped.status());
  EXPECT_EQ(*trapped, "bytes");
  EXPECT_OK(own.status());
  // Root mends and cleans for others.
  EXPECT_OK(fs_.Open(directory_ / "own", FileOpenMode::kReadWrite).status());
}

}  // namespace
}  // namespace quire::io::ownership_test
