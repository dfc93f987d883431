#include "io/paths/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "io/files/machine.h"
#include "io/files/posix_error.h"

namespace quire::io {
namespace {

constexpr uint64_t kLookNs = 5'000'000;
constexpr int kFirstInherited = 3;

// The state with which a program starts: standard streams that lead nowhere, no signal blocked, no
// terminal.
class Beginning {
 public:
  Beginning() {
    ::posix_spawn_file_actions_init(&files_);
    ::posix_spawnattr_init(&attributes_);
    for (int fd = 0; fd < kFirstInherited; ++fd) {
      ::posix_spawn_file_actions_addopen(&files_, fd, "/dev/null", O_RDWR, 0);
    }
    ::posix_spawn_file_actions_addclosefrom_np(&files_, kFirstInherited);
    sigset_t none;
    sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  }
  ~Beginning() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  Beginning(const Beginning&) = delete;
  Beginning& operator=(const Beginning&) = delete;

  const posix_spawn_file_actions_t* files() const { return &files_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

}  // namespace

Status StartDetached(const std::string& program, const std::vector<std::string>& arguments,
                     uint64_t deadline_ns) {
  std::vector<char*> list;
  list.push_back(const_cast<char*>(program.c_str()));
  for (const std::string& argument : arguments) list.push_back(const_cast<char*>(argument.c_str()));
  list.push_back(nullptr);
  const Beginning beginning;
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, program.c_str(), beginning.files(), beginning.attributes(),
                                  list.data(), environ);
  if (error != 0) return ErrnoStatus(error, "start", program);
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Status();
      return Status(Code::kPeerFailed, program + " did not start");
    }
    // A program that ignores SIGCHLD cannot learn how its children end.
    if (ended < 0 && errno == ECHILD) return Status();
    if (RealClock().NowNs() >= deadline_ns) {
      return Status(Code::kTimedOut, program + " was not ready in time");
    }
    RealClock().SleepNs(kLookNs);
  }
}

std::string FindProgram(const std::string& name) {
  const std::string path = Environment("PATH").value_or("");
  for (size_t from = 0; from <= path.size();) {
    const size_t end = std::min(path.find(':', from), path.size());
    const std::string found = path.substr(from, end - from) + "/" + name;
    if (end > from && ::access(found.c_str(), X_OK) == 0) return found;
    from = end + 1;
  }
  return "";
}

void RaiseFileLimit() {
  rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // may fail: the old limit is enough for most
}

}  // namespace quire::io
