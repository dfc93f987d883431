#include "child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "../support/test_scale.h"

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

void FailInTurn(const std::function<Outcome(int64_t n)>& run) {
  const char* const first = ::getenv("QUIRE_ALLOCATION");
  SweepSteps steps;
  int64_t points = 0;
  int64_t stops = 0;
  for (int64_t n = first == nullptr ? 0 : std::atoll(first);; n += steps.After(n)) {
    const Outcome outcome = run(n);
    if (outcome == kTooFar) break;
    ASSERT_NE(outcome, kWrong) << "repeat it with QUIRE_ALLOCATION=" << n;
    if (outcome == kStopped) {
      ++stops;
      std::printf("the program stopped when allocation %lld failed\n", static_cast<long long>(n));
    }
    ++points;
  }
  std::printf("%lld allocations failed in turn, %lld stopped the program\n",
              static_cast<long long>(points), static_cast<long long>(stops));
  if (first == nullptr) {
    EXPECT_GT(points, 50);
  }
  EXPECT_LE(stops, points / 20);
}

}  // namespace quire::test
