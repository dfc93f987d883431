#include "base/threads/epoch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/threads/sync_point.h"

namespace quire::base::epoch_test {
namespace {

TEST(Epoch, FreesObjectsThatNoThreadCanSee) {
  bool freed = false;
  EpochRetire(EpochPrepare([&freed] { freed = true; }));
  EpochSynchronize();
  EXPECT_TRUE(freed);
}

TEST(Epoch, AGuardKeepsWhatIsRetiredWhileItLives) {
  bool freed = false;
  {
    const EpochGuard outer;
    {
      const EpochGuard inner;
      EpochRetire(EpochPrepare([&freed] { freed = true; }));
    }
    EpochCollect();
    EXPECT_FALSE(freed);
  }
  EpochCollect();
  EXPECT_TRUE(freed);
}

TEST(Epoch, AGuardDoesNotKeepWhatWasRetiredBeforeIt) {
  bool freed = false;
  EpochRetire(EpochPrepare([&freed] { freed = true; }));
  const EpochGuard guard;
  EpochCollect();
  EXPECT_TRUE(freed);
}

TEST(Epoch, AGuardOfAnotherThreadKeepsToo) {
  std::atomic<int> stage{0};
  std::atomic<bool> freed{false};
  std::thread reader([&] {
    const EpochGuard guard;
    stage = 1;
    while (stage < 2) std::this_thread::yield();
    EXPECT_FALSE(freed);
  });
  while (stage < 1) std::this_thread::yield();
  EpochRetire(EpochPrepare([&freed] { freed = true; }));
  EpochCollect();
  EXPECT_FALSE(freed);
  stage = 2;
  EpochSynchronize();  // waits for the reader
  EXPECT_TRUE(freed);
  reader.join();
}

// Holds a thread that has read the epoch and not yet published it, until another has looked for
// guards and found none; then holds that one until the first has entered.
class LateGuard final : public SyncPointListener {
 public:
  void Reach(const char* name) override {
    const std::string place = name;
    if (place == "base.epoch.first") {
      has_read = true;
      WaitFor(looked);
    } else if (place == "base.epoch.waited" && !looked.exchange(true)) {
      WaitFor(inside);
    }
  }
  static void WaitFor(const std::atomic<bool>& flag) {
    while (!flag) std::this_thread::yield();
  }

  std::atomic<bool> has_read{false};
  std::atomic<bool> looked{false};
  std::atomic<bool> inside{false};
};

TEST(Epoch, SynchronizingFreesAlsoBesideAGuardThatEntersMeanwhile) {
  { const EpochGuard place_of_this_thread; }
  LateGuard late;
  const ScopedSyncPoints installed(&late);
  std::thread reader([&late] {
    const EpochGuard guard;
    late.inside = true;
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  });
  LateGuard::WaitFor(late.has_read);
  bool freed = false;
  EpochRetire(EpochPrepare([&freed] { freed = true; }));
  EpochSynchronize();
  EXPECT_TRUE(freed);
  reader.join();
}

TEST(Epoch, RetiringAloneFreesInTime) {
  std::atomic<int> alive{0};
  for (int i = 0; i < 10000; ++i) {
    ++alive;
    EpochRetire(EpochPrepare([&alive] { --alive; }));
    EXPECT_LE(alive, 200);
  }
  EpochSynchronize();
  EXPECT_EQ(alive, 0);
}

TEST(Epoch, ReclaimersMayRetire) {
  int freed = 0;
  EpochRetire(EpochPrepare([&freed] {
    ++freed;
    for (int i = 0; i < 200; ++i) EpochRetire(EpochPrepare([&freed] { ++freed; }));
  }));
  EpochSynchronize();
  EpochSynchronize();
  EXPECT_EQ(freed, 201);
}

TEST(Epoch, SynchronizeWaitsForReclaimersOfOtherThreads) {
  std::atomic<int> stage{0};
  std::atomic<bool> done{false};
  std::thread collector([&] {
    EpochRetire(EpochPrepare([&] {
      stage = 1;
      while (stage < 2) std::this_thread::yield();
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      done = true;
    }));
    EpochCollect();
  });
  while (stage < 1) std::this_thread::yield();
  stage = 2;
  EpochSynchronize();
  EXPECT_TRUE(done);
  collector.join();
}

// Writers replace a shared object again and again; readers look at it under a guard. The object's
// destructor spoils it, so that a reader of freed memory sees that even without a sanitizer.
TEST(Epoch, ReadersNeverSeeFreedObjects) {
  struct Object {
    explicit Object(uint64_t n) : first(n), second(~n) {}
    ~Object() { first = second = 0; }
    uint64_t first, second;
  };
  constexpr uint64_t kReplacements = 20000;
  std::atomic<Object*> shared{new Object(0)};
  std::atomic<int> writers_left{2};
  std::atomic<uint64_t> reads{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 2; ++writer) {
    threads.emplace_back([&] {
      for (uint64_t i = 1; i <= kReplacements; ++i) {
        Object* old = shared.exchange(new Object(i), std::memory_order_acq_rel);
        EpochRetire(EpochPrepare([old] { delete old; }));
      }
      --writers_left;
    });
  }
  for (int reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&] {
      do {
        const EpochGuard guard;
        const Object* object = shared.load(std::memory_order_acquire);
        if (object->first != ~object->second) ++wrong;
        ++reads;
      } while (writers_left > 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(reads, 1u);
  delete shared.load();
  EpochSynchronize();
}

TEST(Epoch, ThreadsThatEndHandTheirPlaceOn) {
  std::atomic<int> freed{0};
  for (int i = 0; i < 200; ++i) {
    std::thread([&freed] {
      const EpochGuard guard;
      EpochRetire(EpochPrepare([&freed] { ++freed; }));
    }).join();
  }
  EpochSynchronize();
  EXPECT_EQ(freed, 200);
}

}  // namespace
}  // namespace quire::base::epoch_test
