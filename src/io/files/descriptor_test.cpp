#include "io/files/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/files/file_system.h"
#include "io/files/machine.h"
#include "io/files/page_memory.h"
#include "io/watch/page_watch.h"
#include "io/ipc/poller.h"
#include "io/paths/private_file.h"
#include "io/files/proc_file.h"
#include "io/ipc/sealed_memory.h"
#include "io/ipc/shared_memory.h"
#include "io/ipc/socket.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::io::descriptor_test {
namespace {

// While this object lives, the process has no standard streams, as after `program <&- >&- 2>&-`.
class WithoutStandardStreams {
 public:
  WithoutStandardStreams() {
    for (int fd = 0; fd < 3; ++fd) {
      kept_[static_cast<size_t>(fd)] = ::fcntl(fd, F_DUPFD_CLOEXEC, 100);
      ::close(fd);
    }
  }
  ~WithoutStandardStreams() {
    for (int fd = 0; fd < 3; ++fd) {
      ::dup2(kept_[static_cast<size_t>(fd)], fd);
      ::close(kept_[static_cast<size_t>(fd)]);
    }
  }

 private:
  std::array<int, 3> kept_;
};

std::string OpenStandardNumbers() {
  std::string open;
  for (int fd = 0; fd < 3; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) open += " " + std::to_string(fd);
  }
  return open;
}

// A step that makes objects and keeps them alive, with its name; it prints nothing.
struct Step {
  std::string what;
  std::function<Status()> take;
};

class StandardStreamsTest : public ::testing::Test {
 protected:
  template <typename T>
  Status Keep(Result<T> made, std::vector<T>* kept) {
    if (made.ok()) kept->push_back(std::move(*made));
    return made.status();
  }

  Status OpenFile(const std::string& path, FileOpenMode mode) {
    return Keep(PosixFileSystem().Open(path, mode), &files_);
  }

  Status Connect() {
    QUIRE_RETURN_IF_ERROR(Keep(Socket::ListenTcp("127.0.0.1:0"), &sockets_));
    QUIRE_ASSIGN_OR_RETURN(const std::string address, sockets_.back().LocalAddress());
    QUIRE_RETURN_IF_ERROR(
        Keep(Socket::ConnectTcp(address, RealClock().NowNs() + 20'000'000'000), &sockets_));
    return Accept(sockets_.size() - 2);
  }

  Status Accept(size_t listener) {
    QUIRE_ASSIGN_OR_RETURN(const auto poller, Poller::New());
    QUIRE_RETURN_IF_ERROR(poller->Add(sockets_[listener].fd(), 1));
    QUIRE_RETURN_IF_ERROR(poller->Wait(20'000).status());
    return Keep(sockets_[listener].Accept(), &sockets_);
  }

  // Hands memory over by a local socket: listener, client, server, and memory that goes from one to
  // the other.
  Status HandOver() {
    QUIRE_RETURN_IF_ERROR(Keep(Socket::ListenLocal(directory_.path(), "sock"), &sockets_));
    QUIRE_RETURN_IF_ERROR(Keep(Socket::ConnectLocal(directory_.path(), "sock"), &sockets_));
    QUIRE_RETURN_IF_ERROR(Accept(sockets_.size() - 2));
    QUIRE_RETURN_IF_ERROR(Keep(SealedMemory::Create(8192), &sealed_));
    QUIRE_RETURN_IF_ERROR(sockets_.back().SendDescriptor(sealed_.back()->fd()));
    return Keep(sockets_[sockets_.size() - 2].ReceiveDescriptor(RealClock().NowNs() +
                                                                20'000'000'000),
                &descriptors_);
  }

  Status WatchPages() {
    QUIRE_ASSIGN_OR_RETURN(memory_, AllocatePages(8 * PageBytes()));
    const Status watched =
        Keep(PageWatch::New(WatchKind::kKernel, memory_.data(), 8), &watches_);
    return watched.code() == Code::kUnsupported ? Status() : watched;
  }

  std::vector<Step> Steps() {
    const std::string file = directory_ / "file";
    FileSystem& fs = PosixFileSystem();
    return {
        {"create", [=, this] { return OpenFile(file, FileOpenMode::kCreate); }},
        {"open or create", [=, this] { return OpenFile(file, FileOpenMode::kReadWriteCreate); }},
        {"write", [=, this] { return files_.back()->WriteAt(0, std::string(8192, 'x')); }},
        {"open to read", [=, this] { return OpenFile(file, FileOpenMode::kRead); }},
        {"open what stays", [=, this] { return OpenFile(file, FileOpenMode::kReadImmutable); }},
        {"open to write", [=, this] { return OpenFile(file, FileOpenMode::kReadWrite); }},
        {"map", [=, this, &fs] { return Keep(fs.Map(file, 8192, MapMode::kReadWrite), &maps_); }},
        {"lock", [=, this, &fs] { return Keep(fs.Lock(file + ".lock", "me"), &locks_); }},
        {"list", [=, this, &fs] { return fs.List(directory_.path()).status(); }},
        {"sync the directory", [=, this, &fs] { return fs.SyncDirectory(directory_.path()); }},
        {"read a private file", [=] { return ReadPrivateFile(file, 10'000).status(); }},
        {"shared memory", [this] { return Keep(SharedMemory::Create(4096), &shared_); }},
        {"poller", [this] { return Keep(Poller::New(), &pollers_); }},
        {"network", [this] { return Connect(); }},
        {"local socket", [this] { return HandOver(); }},
        {"watched pages", [this] { return WatchPages(); }},
        {"pipe",
         [this] {
           pipes_.push_back(FileDescriptor::Pipe());
           return pipes_.back().first.ok() ? Status() : Status(Code::kIo);
         }},
    };
  }

  test::TempDirectory directory_;
  std::vector<std::unique_ptr<File>> files_;
  std::vector<std::unique_ptr<MappedFile>> maps_;
  std::vector<std::unique_ptr<FileLock>> locks_;
  std::vector<std::unique_ptr<SharedMemory>> shared_;
  std::vector<std::unique_ptr<SealedMemory>> sealed_;
  std::vector<std::unique_ptr<Poller>> pollers_;
  std::vector<Socket> sockets_;
  std::vector<FileDescriptor> descriptors_;
  std::vector<std::pair<FileDescriptor, FileDescriptor>> pipes_;
  PageMemory memory_;
  std::vector<std::unique_ptr<PageWatch>> watches_;
};

TEST_F(StandardStreamsTest, NothingThatIsOpenedTakesTheirNumbers) {
  std::vector<std::string> seen;
  std::vector<Status> results;
  const std::vector<Step> steps = Steps();
  {
    const WithoutStandardStreams without;
    for (const Step& step : steps) {
      results.push_back(step.take());
      seen.push_back(OpenStandardNumbers());
    }
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_TRUE(results[i].ok()) << steps[i].what << ": " << results[i].ToString();
    EXPECT_EQ(seen[i], "") << steps[i].what;
  }
}

TEST_F(StandardStreamsTest, OutputOfTheProgramReachesNoFile) {
  ssize_t printed = -1;
  {
    const WithoutStandardStreams without;
    ASSERT_OK(OpenFile(directory_ / "file", FileOpenMode::kCreate));
    ASSERT_OK(files_[0]->WriteAt(0, "mine"));
    for (int fd = 0; fd < 3; ++fd) printed = std::max(printed, ::write(fd, "a line", 6));
  }
  EXPECT_EQ(printed, -1);
  const auto bytes = ReadFile(PosixFileSystem(), directory_ / "file", 100);
  ASSERT_OK(bytes.status());
  EXPECT_EQ(*bytes, "mine");
}

TEST_F(StandardStreamsTest, WithoutAHigherNumberOpeningFails) {
  Status opened;
  std::string seen;
  {
    const WithoutStandardStreams without;
    rlimit before;
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit three = {3, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &three), 0);
    opened = OpenFile(directory_ / "file", FileOpenMode::kCreate);
    seen = OpenStandardNumbers();
    ::setrlimit(RLIMIT_NOFILE, &before);
  }
  EXPECT_EQ(opened.code(), Code::kOutOfMemory);
  EXPECT_NE(opened.message().find("ulimit -n"), std::string::npos) << opened.ToString();
  EXPECT_EQ(seen, "");
}

TEST_F(StandardStreamsTest, AProgramOfOursOpensThemWithoutMakingThemWork) {
  std::array<ssize_t, 3> done = {};
  std::string seen;
  char byte = 0;
  {
    const WithoutStandardStreams without;
    OpenStandardStreams();
    seen = OpenStandardNumbers();
    done = {::read(0, &byte, 1), ::write(1, "x", 1), ::write(2, "x", 1)};
  }
  EXPECT_EQ(seen, " 0 1 2");
  EXPECT_EQ(done, (std::array<ssize_t, 3>{-1, -1, -1}));
}

}  // namespace
}  // namespace quire::io::descriptor_test
