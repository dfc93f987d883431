#include "base/sync_point.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>

namespace quire::base {
namespace {

class Holder : public SyncPointListener {
 public:
  void Reach(const char* name) override {
    name_ = name;
    reached_.set_value();
    released_.get_future().wait();
  }
  std::string name_;
  std::promise<void> reached_;
  std::promise<void> released_;
};

TEST(SyncPoint, HoldsTheThreadThatReachesIt) {
  Holder holder;
  std::atomic<bool> passed{false};
  std::thread thread;
  {
    const ScopedSyncPoints installed(&holder);
    thread = std::thread([&passed] {
      SyncPoint("test.held");
      passed = true;
    });
    holder.reached_.get_future().wait();
    EXPECT_EQ(holder.name_, "test.held");
    EXPECT_FALSE(passed);
    holder.released_.set_value();
  }
  thread.join();
  EXPECT_TRUE(passed);
}

TEST(SyncPoint, DoesNothingWithoutAListener) { SyncPoint("test.unheard"); }

}  // namespace
}  // namespace quire::base
