#include "tools/quire-streamd/waits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/core/random.h"
#include "io/files/machine.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::streamd::waits_test {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kLongNs = 20'000 * kMs;

uint64_t In(uint64_t ns) {
  return io::RealClock().NowNs() + ns;
}

// Parts by rank, whose snapshots the test publishes.
class WaitsTest : public testing::Test {
 protected:
  void Start(int threads) {
    waits_ = std::make_unique<Waits>(
        threads, [this](const Waits::Question& question, uint64_t timeout_ms, uint64_t) {
          return Ask(question, timeout_ms);
        });
  }
  Result<uint64_t> Ask(const Waits::Question& question, uint64_t timeout_ms) {
    std::unique_lock<std::mutex> lock(mutex_);
    asking_max_ = std::max(asking_max_, ++asking_);
    ++asked_;
    uint64_t& newest = snapshots_[question.part.rank];
    changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                      [&] { return newest > question.after; });
    --asking_;
    if (newest > question.after) return newest;
    return Status(Code::kTimedOut);
  }
  void Publish(uint32_t rank, uint64_t snapshot) {
    const std::lock_guard<std::mutex> lock(mutex_);
    snapshots_[rank] = snapshot;
    changed_.notify_all();
  }
  void Add(uint32_t rank, uint64_t after, uint64_t until_ns) {
    waits_->Add({{"store", rank}, after}, {until_ns, until_ns, [=, this](const auto& newest) {
      const std::lock_guard<std::mutex> lock(mutex_);
      const uint64_t now = io::RealClock().NowNs();
      const bool late = newest.status().code() == Code::kTimedOut;
      wrong_ += late ? now < until_ns : !newest.ok() || *newest <= after;
      (late ? timed_out_ : told_)++;
      changed_.notify_all();
    }});
  }
  bool AwaitTold(int told, int timed_out) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] {
      return told_ == told && timed_out_ == timed_out;
    });
  }
  void TearDown() override {
    if (waits_) {
      EXPECT_TRUE(waits_->Stop(20'000));
    }
    EXPECT_EQ(wrong_, 0);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t snapshots_[64] = {};
  int asking_ = 0;
  int asking_max_ = 0;
  int asked_ = 0;
  int told_ = 0;
  int timed_out_ = 0;
  int wrong_ = 0;
  std::unique_ptr<Waits> waits_;
};

TEST_F(WaitsTest, AllThatWaitForTheSameAreOneQuestion) {
  constexpr int kWaiters = 1000;
  Start(256);
  for (int i = 0; i < kWaiters; ++i) Add(1, 0, In(kLongNs));
  EXPECT_EQ(waits_->size(), 1u);
  Publish(1, 7);
  EXPECT_TRUE(AwaitTold(kWaiters, 0));
  EXPECT_EQ(waits_->size(), 0u);
  EXPECT_EQ(asking_max_, 1);
}

TEST_F(WaitsTest, MoreQuestionsThanThreadsTakeTurnsAndNoneIsLost) {
  constexpr uint32_t kParts = 40;
  Start(2);
  for (uint32_t rank = 0; rank < kParts; ++rank) Add(rank, 5, In(kLongNs));
  EXPECT_EQ(waits_->size(), kParts);
  // A snapshot that exists already is returned at once.
  Publish(50, 3);
  Add(50, 2, In(kLongNs));
  EXPECT_TRUE(AwaitTold(1, 0));
  // A snapshot that comes is returned, whichever question has its turn.
  for (uint32_t rank = 0; rank < kParts; rank += 7) Publish(rank, 6);
  EXPECT_TRUE(AwaitTold(1 + 6, 0));
  EXPECT_LE(asking_max_, 3) << "two threads, and the test's";
}

TEST_F(WaitsTest, AShortWaitIsNotDelayedByALongOne) {
  Start(4);
  Add(1, 0, In(kLongNs));
  const uint64_t begin = io::RealClock().NowNs();
  Add(1, 0, In(5 * kMs));
  EXPECT_TRUE(AwaitTold(0, 1));
  EXPECT_LT(io::RealClock().NowNs() - begin, 1500 * kMs) << "a turn of the other takes 2 s";
  Publish(1, 1);
  EXPECT_TRUE(AwaitTold(1, 1));
}

TEST_F(WaitsTest, EachWaiterGetsOneRightAnswerInAnyOrder) {
  base::Random random(5);
  for (int64_t round = test::ScaledCount(6); round > 0; --round) {
    told_ = timed_out_ = 0;
    std::fill(std::begin(snapshots_), std::end(snapshots_), 0);
    Start(1 + static_cast<int>(random.Below(6)));
    constexpr int kWaiters = 300;
    for (int i = 0; i < kWaiters; ++i) {
      const auto rank = static_cast<uint32_t>(random.Below(8));
      Add(rank, random.Below(20), In(random.Below(100) * kMs));
      if (random.OneIn(3)) Publish(rank, random.Below(20));
    }
    std::unique_lock<std::mutex> lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20),
                                  [&] { return told_ + timed_out_ == kWaiters; }));
    EXPECT_GT(told_, 0);
    EXPECT_GT(timed_out_, 0);
    lock.unlock();
    waits_.reset();
    EXPECT_EQ(told_ + timed_out_, kWaiters);
  }
}

TEST_F(WaitsTest, ASingleFailureEndsAllThatWaitForThePart) {
  std::atomic<int> failed{0};
  Waits waits(4, [](const Waits::Question&, uint64_t, uint64_t) -> Result<uint64_t> {
    return Status(Code::kPeerFailed, "gone");
  });
  for (int i = 0; i < 50; ++i) {
    waits.Add({{"store", 1}, 0}, {In(kLongNs), In(kLongNs), [&](const auto& newest) {
      failed += newest.status().code() == Code::kPeerFailed ? 1 : 0;
    }});
  }
  while (waits.size() != 0) std::this_thread::yield();
  EXPECT_TRUE(waits.Stop(20'000));
  EXPECT_EQ(failed, 50);
}

}  // namespace
}  // namespace quire::streamd::waits_test
