#include "base/threads/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include "base/threads/executor.h"

namespace quire::base::thread_test {
namespace {

TEST(StartThread, BlocksSignalsOfTheProgramAndKeepsItsOwn) {
  sigset_t mask;
  Result<std::thread> thread =
      StartThread("test", [&mask] { pthread_sigmask(SIG_BLOCK, nullptr, &mask); });
  ASSERT_TRUE(thread.ok());
  thread->join();
  for (const int program : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGALRM, SIGPROF, SIGCHLD}) {
    EXPECT_EQ(sigismember(&mask, program), 1) << program;
  }
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    EXPECT_EQ(sigismember(&mask, own), 0) << own;
  }
}

TEST(StartThread, LeavesTheCallersMaskAlone) {
  sigset_t before;
  sigset_t after;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  StartThread("test", [] {})->join();
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
  }
}

TEST(StartThread, ReturnsARefusalAsAStatus) {
  FailThreadStarts(1, 1);
  Result<std::thread> first = StartThread("first", [] {});
  Result<std::thread> second = StartThread("second", [] {});
  Result<std::thread> third = StartThread("third", [] {});
  EXPECT_EQ(ThreadStarts(), 3);
  FailThreadStarts(0, 0);
  ASSERT_TRUE(first.ok());
  first->join();
  EXPECT_EQ(second.status().code(), Code::kOutOfMemory);
  EXPECT_NE(second.status().message().find("\"second\""), std::string::npos);
  ASSERT_TRUE(third.ok());
  third->join();
}

TEST(ThreadPool, WithoutOneOfItsThreadsIsAStatusAndLeavesNone) {
  for (int n = 0; n < 3; ++n) {
    FailThreadStarts(n, 1);
    const Result<std::unique_ptr<Executor>> pool = NewThreadPool(3, "pool");
    EXPECT_EQ(ThreadStarts(), n + 1);
    EXPECT_EQ(pool.status().code(), Code::kOutOfMemory);
  }
  FailThreadStarts(0, 0);
  EXPECT_EQ(NewThreadPool(3, "pool").value()->thread_count(), 3);
}

}  // namespace
}  // namespace quire::base::thread_test
