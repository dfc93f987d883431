#include "base/threads/sync_point.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/held_thread.h"

namespace quire::base::sync_point_test {
namespace {

class SyncPointTest : public testing::Test {
 protected:
  // Runs a thread that passes `place` so many times.
  void Start(const char* place, int times = 1) {
    thread_ = std::thread([this, place, times] {
      for (int i = 0; i < times; ++i) {
        SyncPoint(place);
        ++passed_;
      }
    });
  }
  std::thread thread_;
  std::atomic<int> passed_{0};
};

TEST_F(SyncPointTest, HoldsTheThreadThatReachesItUntilItIsReleased) {
  {
    test::HeldThread holder({.place = "test.held", .wait_ms_max = 60'000});
    Start("test.held");
    ASSERT_TRUE(holder.WaitUntilHeld());
    EXPECT_EQ(passed_, 0);
    holder.Release();
    thread_.join();
  }
  EXPECT_EQ(passed_, 1);
}

TEST_F(SyncPointTest, TheEndOfTheHolderReleasesTheThread) {
  {
    test::HeldThread holder({.place = "test.held", .wait_ms_max = 60'000});
    Start("test.held");
    ASSERT_TRUE(holder.WaitUntilHeld());
  }
  thread_.join();
  EXPECT_EQ(passed_, 1);
}

TEST_F(SyncPointTest, OthersThatGoOnReleaseTheThread) {
  test::HeldThread holder({.place = "test.held", .skip = 1, .events = 2, .wait_ms_max = 60'000});
  Start("test.held", 2);
  ASSERT_TRUE(holder.WaitUntilHeld());
  EXPECT_EQ(passed_, 1);  // the first arrival was skipped
  SyncPoint("test.other");
  EXPECT_EQ(passed_, 1);
  SyncPoint("test.other");
  thread_.join();
  EXPECT_EQ(passed_, 2);
  EXPECT_EQ(holder.arrivals()["test.other"], 2);
}

TEST_F(SyncPointTest, TimeReleasesTheThread) {
  test::HeldThread holder({.place = "test.held", .wait_ms_max = 1});
  Start("test.held");
  thread_.join();
  EXPECT_TRUE(holder.held());
}

TEST_F(SyncPointTest, DoesNothingWithoutAListener) { SyncPoint("test.unheard"); }

}  // namespace
}  // namespace quire::base::sync_point_test
