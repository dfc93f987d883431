#include "tools/quire-streamd/place_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::streamd {
namespace {

TEST(PlaceFiles, TellWhereTheDaemonListensToItsUserAlone) {
  const test::TempDirectory place;
  io::FileSystem& fs = io::PosixFileSystem();
  ASSERT_OK(WriteDaemonFile(fs, place.path(), {"127.0.0.1:4711", "node1:4712"}));
  auto file = ReadDaemonFile(fs, place.path());
  ASSERT_OK(file.status());
  EXPECT_EQ(file->address, "127.0.0.1:4711");
  EXPECT_EQ(file->metadata, "node1:4712");
  struct stat info;
  ASSERT_EQ(::stat((place / ".daemon").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  RemoveDaemonFiles(fs, place.path());
  EXPECT_EQ(ReadDaemonFile(fs, place.path()).status().code(), Code::kNotFound);
}

TEST(PlaceFiles, LetOneDaemonRunAtAPlace) {
  const test::TempDirectory place;
  io::FileSystem& fs = io::PosixFileSystem();
  EXPECT_EQ(*RunningDaemon(fs, place.path()), "");
  EXPECT_EQ(StopDaemon(fs, place.path(), 10).code(), Code::kNotFound);
  const auto lock = LockPlace(fs, place.path());
  ASSERT_OK(lock.status());
  EXPECT_EQ(LockPlace(fs, place.path()).status().code(), Code::kBusy);
  EXPECT_NE(*RunningDaemon(fs, place.path()), "");
}

TEST(PlaceFiles, EndNoProcessOfAnotherMachine) {
  const test::TempDirectory place;
  io::FileSystem& fs = io::PosixFileSystem();
  const auto lock = fs.Lock(place / ".daemon.lock", "elsewhere pid 1");
  ASSERT_OK(lock.status());
  EXPECT_EQ(StopDaemon(fs, place.path(), 10).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace quire::streamd
