#include "base/threads/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace quire::base::executor_test {
namespace {

// Returns the jobs that a pool of one thread ran, in order. The first is long; it lets others run
// once everything else is scheduled.
std::string OrderOf(const std::string& jobs) {
  std::string order;
  std::atomic<bool> scheduled{false};
  const auto made = NewThreadPool(1, "test");
  EXPECT_TRUE(made.ok());
  Executor& pool = **made;
  pool.ScheduleLong([&] {
    while (!scheduled) std::this_thread::yield();
    order += '<';
    pool.RunWaiting();
    order += '>';
  });
  for (const char job : jobs) {
    auto run = [&order, job] { order += job; };
    if (job == 'L') {
      pool.ScheduleLong(run);
    } else {
      pool.Schedule(run);
    }
  }
  scheduled = true;
  pool.WaitIdle();
  return order;
}

TEST(ThreadPool, RunsWaitingJobsWithinALongOne) { EXPECT_EQ(OrderOf("abc"), "<abc>"); }

TEST(ThreadPool, RunsALongJobWithinOneOther) { EXPECT_EQ(OrderOf("aLb"), "<aLb>"); }

// The third waits until the first two are over.
TEST(ThreadPool, RunsNoLongJobWithinTwoOthers) {
  std::string order;
  const auto made = NewThreadPool(1, "test");
  ASSERT_TRUE(made.ok());
  Executor& pool = **made;
  std::atomic<bool> scheduled{false};
  const auto run = [&](char name) {
    return [&, name] {
      while (!scheduled) std::this_thread::yield();
      order += pool.LongJobs() > 1 ? '(' : '<';
      pool.RunWaiting();
      order += name;
    };
  };
  for (const char name : {'a', 'b', 'c'}) pool.ScheduleLong(run(name));
  scheduled = true;
  pool.WaitIdle();
  EXPECT_EQ(order, "<(b(ca");
}

// A job that schedules itself again does not keep the long one from going on.
TEST(ThreadPool, RunsWithinALongJobOnlyWhatWaitedBefore) {
  std::atomic<int> turns{0};
  int within = 0;
  const auto made = NewThreadPool(1, "test");
  ASSERT_TRUE(made.ok());
  Executor& pool = **made;
  const std::function<void()> again = [&] {
    if (++turns < 100) pool.Schedule(again);
  };
  std::atomic<bool> scheduled{false};
  pool.ScheduleLong([&] {
    while (!scheduled) std::this_thread::yield();
    pool.RunWaiting();
    within = turns;
  });
  pool.Schedule(again);
  scheduled = true;
  pool.WaitIdle();
  EXPECT_EQ(within, 1);
  EXPECT_EQ(turns, 100);
}

}  // namespace
}  // namespace quire::base::executor_test
