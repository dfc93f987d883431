#include "base/threads/parallel_for.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace quire::base::parallel_for_test {
namespace {

TEST(ParallelFor, RunsEachPieceOnce) {
  const auto pool = NewThreadPool(3, "pool").value();
  const auto manual = NewManualExecutor();
  for (Executor* executor : {pool.get(), manual.get(), static_cast<Executor*>(nullptr)}) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{1000}}) {
      std::vector<std::atomic<int>> runs(count);
      ParallelFor(executor, count, [&](size_t i) { ++runs[i]; });
      for (const std::atomic<int>& times : runs) EXPECT_EQ(times.load(), 1);
    }
  }
}

TEST(ParallelFor, RunsPiecesBesideEachOther) {
  // Each piece waits for the other: on one thread this would hang.
  const auto pool = NewThreadPool(1, "pool").value();
  std::atomic<int> arrived{0};
  ParallelFor(pool.get(), 2, [&](size_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), 2);
}

TEST(ParallelFor, NeedsNoOtherThreadOfThePoolThatItRunsOn) {
  std::atomic<int> runs{0};
  {
    const auto pool = NewThreadPool(1, "pool").value();
    Executor* const executor = pool.get();
    executor->Schedule([&runs, executor] { ParallelFor(executor, 100, [&](size_t) { ++runs; }); });
  }
  EXPECT_EQ(runs.load(), 100);
}

// Finds no memory for the second job, and runs the first beside its caller.
class Forgetful final : public Executor {
 public:
  void Schedule(std::function<void()> job) override {
    if (scheduled_++ == 1) throw std::bad_alloc();
    pool_->Schedule(std::move(job));
  }
  bool RunOne() override { return false; }
  void WaitIdle() override { pool_->WaitIdle(); }
  int thread_count() const override { return 3; }

 private:
  const std::unique_ptr<Executor> pool_ = NewThreadPool(1, "pool").value();
  int scheduled_ = 0;
};

TEST(ParallelFor, GoesOnWhereThereIsNoMemoryToAskMoreThreads) {
  Forgetful executor;
  std::atomic<int> runs{0};
  ParallelFor(&executor, 1000, [&](size_t) { ++runs; });
  EXPECT_EQ(runs.load(), 1000);
}

TEST(ParallelFor, ThrowsWhatAPieceThrows) {
  const auto pool = NewThreadPool(2, "pool").value();
  for (Executor* executor : {pool.get(), static_cast<Executor*>(nullptr)}) {
    std::atomic<int> runs{0};
    const auto body = [&](size_t) {
      ++runs;
      throw std::bad_alloc();
    };
    EXPECT_THROW(ParallelFor(executor, 1000, body), std::bad_alloc);
    EXPECT_LE(runs.load(), 3);
  }
}

}  // namespace
}  // namespace quire::base::parallel_for_test
