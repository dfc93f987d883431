// A put and a get make no system call after their object has been put and got once.
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/core/sanitizer.h"
#include "stream/store/local_reader.h"
#include "stream/store/stream_testing.h"
#include "stream/store/writer.h"
#include "tests/support/temp_directory.h"

namespace quire::stream::system_calls_test {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr int kSteps = 100;
constexpr int kCannotCount = 77;

void EndAtSystemCall(int, siginfo_t* info, void*) {
  char text[64];
  const int length = std::snprintf(text, sizeof text, "system call %d\n", info->si_syscall);
  _exit(::write(STDERR_FILENO, text, static_cast<size_t>(length)) == length ? 1 : 2);
}

// Makes each further system call end this process and report its number. clock_gettime may be a
// system call if the kernel has no clock that programs can read; the other allowed calls end the
// test.
bool ForbidSystemCalls() {
  struct sigaction action = {};
  action.sa_sigaction = EndAtSystemCall;
  action.sa_flags = SA_SIGINFO;
  if (::sigaction(SIGSYS, &action, nullptr) != 0) return false;
  const auto allow = [](uint32_t call, std::vector<sock_filter>* filter) {
    filter->push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    filter->push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  };
  std::vector<sock_filter> filter;
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  for (const uint32_t call : {SYS_clock_gettime, SYS_exit_group, SYS_write}) allow(call, &filter);
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
  sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

[[noreturn]] void Fail(const Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  _exit(1);
}

// A writer and a reader of one object, each with all that it needs.
class PutAndGet {
 public:
  PutAndGet(const std::string& place, StreamDeltas deltas, uint64_t bytes)
      : bytes_(bytes), copy_(bytes, '\0') {
    StreamOptions options = SmallLog(4 * bytes + kMiB);
    options.deltas = deltas;
    options.keep_versions = 2;
    auto writer = OpenWriter(io::PosixFileSystem(), place, "store", 0, options);
    if (!writer.ok()) Fail(writer.status());
    writer_ = *std::move(writer);
    auto reader = OpenLocalReader(io::PosixFileSystem(), place, "store", 0);
    if (!reader.ok()) Fail(reader.status());
    reader_ = *std::move(reader);
    memory_ = *writer_->Create("key", bytes);
  }

  void Step() {
    ++memory_[static_cast<uint64_t>(++steps_) * 7919 % bytes_];
    Check(writer_->Put("key").status());
    Check(reader_->Get("key", 0, [this](size_t) { return copy_.data(); }));
    if (copy_ != Slice(memory_, bytes_)) Fail(Status(Code::kCorruption, "not what was put"));
    const auto view = reader_->View("key", 0);
    Check(view.status());
    Check(reader_->Wait(0, 0).status());
  }

 private:
  static void Check(const Status& status) {
    if (!status.ok()) Fail(status);
  }

  const uint64_t bytes_;
  std::string copy_;
  std::unique_ptr<StreamWriter> writer_;
  std::unique_ptr<StreamReader> reader_;
  char* memory_ = nullptr;
  int steps_ = 0;
};

// Ends this process, because a filter of system calls cannot be removed.
[[noreturn]] void RunWithoutSystemCalls(const std::string& place, StreamDeltas deltas,
                                        uint64_t bytes) {
  PutAndGet both(place, deltas, bytes);
  for (int i = 0; i < kSteps; ++i) both.Step();
  if (!ForbidSystemCalls()) _exit(kCannotCount);
  for (int i = 0; i < kSteps; ++i) both.Step();
  std::fprintf(stderr, "no system call\n");
  _exit(0);
}

bool CanForbidSystemCalls() {
  const pid_t child = ::fork();
  if (child == 0) _exit(ForbidSystemCalls() ? 0 : kCannotCount);
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(SystemCallsDeathTest, APutAndAGetMakeNone) {
  if (QUIRE_THREAD_SANITIZER != 0 || QUIRE_ADDRESS_SANITIZER != 0) {
    GTEST_SKIP() << "a sanitizer makes system calls of its own";
  }
  if (!CanForbidSystemCalls()) GTEST_SKIP() << "the system allows no filter of system calls";
  for (const StreamDeltas deltas : {StreamDeltas::kOff, StreamDeltas::kHash}) {
    for (const uint64_t bytes : {uint64_t{100}, 64 * 1024 + uint64_t{1}}) {
      const test::TempDirectory directory;
      EXPECT_EXIT(RunWithoutSystemCalls(directory.path(), deltas, bytes),
                  testing::ExitedWithCode(0), "no system call")
          << "deltas " << static_cast<int>(deltas) << ", " << bytes << " bytes";
    }
  }
}

}  // namespace
}  // namespace quire::stream::system_calls_test
