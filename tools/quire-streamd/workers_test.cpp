#include "tools/quire-streamd/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <semaphore>

#include "base/threads/thread.h"

namespace quire::streamd::workers_test {
namespace {

TEST(Workers, RunAsManyAtOnceAsTheyMay) {
  Workers workers(4);
  std::barrier together(5);  // all five threads must arrive
  for (int i = 0; i < 4; ++i) workers.Run([&] { together.arrive_and_wait(); });
  together.arrive_and_wait();
}

TEST(Workers, RunEverythingThatIsMoreThanTheyAre) {
  std::atomic<int> ran{0};
  std::counting_semaphore<> done(0);
  Workers workers(3);
  for (int i = 0; i < 1000; ++i) {
    workers.Run([&] {
      ++ran;
      done.release();
    });
  }
  for (int i = 0; i < 1000; ++i) done.acquire();
  EXPECT_EQ(ran.load(), 1000);
}

TEST(Workers, RunWhatNoThreadCouldBeStartedFor) {
  std::binary_semaphore ran(0);
  Workers workers(2);
  base::FailThreadStarts(0, 1);
  workers.Run([&] { ran.release(); });
  EXPECT_FALSE(ran.try_acquire_for(std::chrono::milliseconds(50)));
  workers.Rouse();
  EXPECT_TRUE(ran.try_acquire_for(std::chrono::seconds(20)));
  base::FailThreadStarts(0, 0);
}

TEST(Workers, SayWhetherAllEndedInTime) {
  std::binary_semaphore go(0);
  std::binary_semaphore begun(0);
  Workers workers(1);
  std::atomic<bool> dropped{true};
  workers.Run([&] {
    begun.release();
    go.acquire();
  });
  begun.acquire();
  workers.Run([&] { dropped = false; });
  EXPECT_FALSE(workers.Stop(1));
  go.release();
  EXPECT_TRUE(workers.Stop(20'000));
  EXPECT_TRUE(dropped.load());
}

}  // namespace
}  // namespace quire::streamd::workers_test
