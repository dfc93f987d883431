#include "tools/quire-streamd/log_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::streamd::log_file_test {
namespace {

TEST(DaemonLog, HasTheNewestLinesAndTakesNoMoreRoomThanItMay) {
  constexpr uint64_t kBytes = 4096;
  const test::TempDirectory directory;
  io::FileSystem& fs = io::PosixFileSystem();
  const std::string path = directory / "log";
  const auto log = DaemonLog::Open(fs, path, kBytes);
  ASSERT_OK(log.status());
  for (int i = 0; i < 2000; ++i) {
    (*log)->Write("line " + std::to_string(i));
    const auto text = io::ReadFile(fs, path, kBytes);
    ASSERT_OK(text.status());
    ASSERT_TRUE(text->ends_with(" line " + std::to_string(i) + "\n"));
  }
  EXPECT_OK(io::ReadFile(fs, path + ".old", kBytes).status());
  EXPECT_EQ(fs.List(directory.path())->size(), 2u);
  struct stat info;
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(DaemonLog, KeepsWhatTheDaemonBeforeHadToSay) {
  const test::TempDirectory directory;
  io::FileSystem& fs = io::PosixFileSystem();
  const std::string path = directory / "log";
  (*DaemonLog::Open(fs, path))->Write("why it ended");
  const auto log = DaemonLog::Open(fs, path);
  ASSERT_OK(log.status());
  EXPECT_EQ(*io::ReadFile(fs, path, 100), "");
  const auto before = io::ReadFile(fs, path + ".old", 100);
  ASSERT_OK(before.status());
  EXPECT_NE(before->find("why it ended"), std::string::npos);
}

}  // namespace
}  // namespace quire::streamd::log_file_test
