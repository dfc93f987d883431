#include "child_process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace quire::test {
namespace {

constexpr unsigned kHangSeconds = 20;

}  // namespace

Outcome InProcess(const std::function<Outcome()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kHangSeconds);
    ::_exit(body());
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return kWrong;
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGABRT ? kStopped : kWrong;
  return static_cast<Outcome>(WEXITSTATUS(status));
}

}  // namespace quire::test
