#include "tools/quire-streamd/place_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>

#include "io/files/machine.h"
#include "io/ipc/socket.h"
#include "stream/remote/daemon_client.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::streamd::place_files_test {
namespace {

TEST(PlaceFiles, OnlyItsUserMayReadTheDaemonsAddress) {
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
  io::MadePaths made;
  const auto lock = LockPlace(fs, place.path(), &made);
  ASSERT_OK(lock.status());
  EXPECT_EQ(LockPlace(fs, place.path(), &made).status().code(), Code::kBusy);
  EXPECT_NE(*RunningDaemon(fs, place.path()), "");
}

TEST(PlaceFiles, EndNoProcessOfAnotherMachine) {
  const test::TempDirectory place;
  io::FileSystem& fs = io::PosixFileSystem();
  const auto lock = fs.Lock(place / ".daemon.lock", "elsewhere pid 1");
  ASSERT_OK(lock.status());
  EXPECT_EQ(StopDaemon(fs, place.path(), 10).code(), Code::kInvalidArgument);
}

// A child that listens at `place`, or does nothing. The test ends it at the latest.
class Child {
 public:
  explicit Child(const std::string& place, uid_t user = ::geteuid()) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    id_ = ::fork();
    if (id_ == 0) {
      if (user != ::geteuid() && ::setuid(user) != 0) ::_exit(2);
      const auto listener = place.empty()
                                ? Result<io::Socket>(Status(Code::kNotFound))
                                : io::Socket::ListenLocal(place, stream::kDaemonSocket);
      const char ready = place.empty() || listener.ok() ? 'y' : 'n';
      (void)!::write(ends[1], &ready, 1);
      for (;;) ::pause();
    }
    char ready = 0;
    EXPECT_EQ(::read(ends[0], &ready, 1), 1);
    EXPECT_EQ(ready, 'y');
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Child() { (void)SignalThatEndsIt(SIGKILL); }
  pid_t id() const { return id_; }
  bool lives() const { return ::waitpid(id_, nullptr, WNOHANG) == 0; }
  // Returns the signal that ended the child: `signal`, unless another one came first.
  int SignalThatEndsIt(int signal) {
    if (id_ == 0) return 0;
    ::kill(id_, signal);
    int status = 0;
    ::waitpid(std::exchange(id_, 0), &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  pid_t id_ = 0;
};

std::string HolderNamed(pid_t pid) {
  const std::string self = io::ProcessDescription();
  return self.substr(0, self.find(" pid ")) + " pid " + std::to_string(pid);
}

TEST(PlaceFiles, EndTheProcessThatListensAndNotTheOneThatATextNames) {
  const test::TempDirectory place;
  io::FileSystem& fs = io::PosixFileSystem();
  const Child victim("");
  const auto lock = fs.Lock(place / ".daemon.lock", HolderNamed(victim.id()));
  ASSERT_OK(lock.status());
  // No daemon listens.
  EXPECT_CODE(StopDaemon(fs, place.path(), 50), Code::kTimedOut);
  EXPECT_TRUE(victim.lives());
  Child daemon(place.path());
  EXPECT_CODE(StopDaemon(fs, place.path(), 50), Code::kTimedOut);  // the lock is this test's
  EXPECT_EQ(daemon.SignalThatEndsIt(SIGTERM), SIGTERM);
  EXPECT_TRUE(victim.lives());
}

TEST(PlaceFiles, EndNoProcessOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const test::TempDirectory place;
  io::FileSystem& fs = io::PosixFileSystem();
  ASSERT_EQ(::chmod(place.path().c_str(), 0777), 0);
  const Child other(place.path(), 12345);
  const auto lock = fs.Lock(place / ".daemon.lock", HolderNamed(other.id()));
  ASSERT_OK(lock.status());
  EXPECT_CODE(StopDaemon(fs, place.path(), 50), Code::kInvalidArgument);
  EXPECT_CODE(RunningDaemon(fs, place.path()).status(), Code::kInvalidArgument);
  ASSERT_EQ(::chmod(place.path().c_str(), 0755), 0);
  const Status status = StopDaemon(fs, place.path(), 50);
  EXPECT_CODE(status, Code::kInvalidArgument);
  EXPECT_NE(status.message().find("belongs to user 12345"), std::string::npos);
  EXPECT_TRUE(other.lives());
}

TEST(PlaceFiles, FindNoDaemonWhereThereIsNoPlace) {
  const test::TempDirectory place;
  io::FileSystem& fs = io::PosixFileSystem();
  EXPECT_EQ(*RunningDaemon(fs, place / "none"), "");
  EXPECT_CODE(StopDaemon(fs, place / "none", 10), Code::kNotFound);
}

}  // namespace
}  // namespace quire::streamd::place_files_test
