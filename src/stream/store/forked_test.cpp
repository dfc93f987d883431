// A writer and a reader fork and are killed, while their children live on. A child has none of
// their locks, so all other programs go on as if it did not exist.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "stream/store/local_reader.h"
#include "stream/store/stream_testing.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::stream::forked_test {
namespace {

constexpr uint64_t kBytes = 100'000;

// A process that does some work, forks, and waits to be killed. Its child lives until this object
// is destroyed.
class Forked {
 public:
  // `work` must hold what it opened until its call of `wait`.
  explicit Forked(const std::function<void(const std::function<void()>& wait)>& work) {
    EXPECT_EQ(::pipe(alive_.data()), 0);
    EXPECT_EQ(::pipe(ready_.data()), 0);
    parent_ = ::fork();
    if (parent_ == 0) {
      ::close(alive_[1]);
      work([this] { ForkAndWait(); });
      ::_exit(1);
    }
    ::close(ready_[1]);
    char byte = 0;
    is_ready_ = ::read(ready_[0], &byte, 1) == 1;
  }
  ~Forked() {
    for (const int fd : {alive_[0], alive_[1], ready_[0]}) ::close(fd);
  }
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;

  bool is_ready() const { return is_ready_; }
  void KillParent() const {
    EXPECT_EQ(::kill(parent_, SIGKILL), 0);
    EXPECT_EQ(::waitpid(parent_, nullptr, 0), parent_);
  }

 private:
  void ForkAndWait() const {
    char byte = 0;
    const bool is_child = ::fork() == 0;
    if (is_child && ::write(ready_[1], &byte, 1) != 1) ::_exit(1);
    // Reads the end of the file when the test is over.
    static_cast<void>(::read(alive_[0], &byte, 1));
    ::_exit(0);
  }

  std::array<int, 2> alive_ = {};
  std::array<int, 2> ready_ = {};
  pid_t parent_ = -1;
  bool is_ready_ = false;
};

class ForkedPrograms : public testing::Test {
 protected:
  Result<std::unique_ptr<StreamWriter>> Write() const {
    return OpenWriter(fs_, place_, "store", 0, SmallLog(1 << 20));
  }
  Result<std::unique_ptr<StreamReader>> Read() const {
    return OpenLocalReader(fs_, place_, "store", 0);
  }
  static Status Begin(StreamWriter& writer) {
    QUIRE_RETURN_IF_ERROR(writer.Create("zeta", kBytes).status());
    return writer.Put("zeta").status();
  }

  const test::TempDirectory directory_;
  io::FileSystem& fs_ = io::PosixFileSystem();
  const std::string place_ = directory_ / "place";
};

TEST_F(ForkedPrograms, ADeadWriterIsReportedAndReplacedThoughItsChildLives) {
  const Forked forked([&](const auto& wait) {
    const auto writer = Write();
    if (writer.ok() && Begin(**writer).ok()) wait();
  });
  ASSERT_TRUE(forked.is_ready());
  const auto reader = Read();
  ASSERT_OK(reader.status());
  EXPECT_EQ(Write().status().code(), Code::kBusy);
  forked.KillParent();
  EXPECT_CODE((*reader)->Wait(1, 10'000).status(), Code::kPeerFailed);
  const auto next = Write();
  ASSERT_OK(next.status());
  EXPECT_OK(Begin(**next));
  EXPECT_EQ(*(*reader)->LastSnapshot(), 2u);
}

TEST_F(ForkedPrograms, AReaderThatDiedHoldsNothingThoughItsChildLives) {
  const auto writer = Write();
  ASSERT_OK(writer.status());
  ASSERT_OK(Begin(**writer));
  const Forked forked([&](const auto& wait) {
    const auto reader = Read();
    if (!reader.ok()) return;
    const auto view = (*reader)->View("zeta", 1);
    if (view.ok()) wait();
  });
  ASSERT_TRUE(forked.is_ready());
  Status full;
  for (int i = 0; i < 20 && full.ok(); ++i) full = (*writer)->Put("zeta").status();
  EXPECT_CODE(full, Code::kNoSpace);  // the parent holds its version
  forked.KillParent();
  for (int i = 0; i < 20; ++i) EXPECT_OK((*writer)->Put("zeta").status());
}

}  // namespace
}  // namespace quire::stream::forked_test
