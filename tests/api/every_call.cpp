#include "tests/api/every_call.h"

#include <gtest/gtest.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace {
bool in_forked_child = false;
std::atomic<uint64_t> signals{0};

void CountSignal(int /*number*/) {
  signals.fetch_add(1);
}

void SetTimer(suseconds_t interval_us) {
  const struct timeval interval = {0, interval_us};
  const struct itimerval timer = {interval, interval};
  EXPECT_EQ(::setitimer(ITIMER_REAL, &timer, nullptr), 0);
}
}  // namespace

// LeakSanitizer asks for it when a process ends. The threads of the parent are not in a forked
// child, and it takes for lost what only they know. It is found from the sanitizer's own library.
extern "C" [[gnu::visibility("default")]] int __lsan_is_turned_off();
int __lsan_is_turned_off() {
  return in_forked_child ? 1 : 0;
}

namespace quire::test {

int InChild(const std::function<int()>& body) {
  constexpr unsigned kHangSeconds = 20;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    in_forked_child = true;
    ::alarm(kHangSeconds);
    std::exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFSIGNALED(status)) << "signal " << WTERMSIG(status) << ": it hung, or crashed";
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Interruptions::Interruptions() {
  signals = 0;
  struct sigaction action = {};
  action.sa_handler = CountSignal;
  EXPECT_EQ(::sigaction(SIGALRM, &action, &before_), 0);
  SetTimer(1000);
}

Interruptions::~Interruptions() {
  SetTimer(0);
  EXPECT_EQ(::sigaction(SIGALRM, &before_, nullptr), 0);
}

uint64_t Interruptions::count() {
  return signals;
}

}  // namespace quire::test
