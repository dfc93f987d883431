#include "io/watch/page_watch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/core/random.h"
#include "io/watch/page_watch_testing.h"

namespace quire::io::page_watch_test {
namespace {

class PageWatchTest : public ::testing::TestWithParam<WatchKind> {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const PageMemory memory = NewMemory(1);
    const auto watch = PageWatch::New(GetParam(), memory.data(), 1);
    if (!watch.ok()) GTEST_SKIP() << "not on this machine: " << watch.status().ToString();
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, PageWatchTest,
                         ::testing::Values(WatchKind::kKernel, WatchKind::kProtect),
                         [](const auto& kind) {
                           return kind.param == WatchKind::kKernel ? "Kernel" : "Protect";
                         });

TEST(AllocatePages, GivesZeroedWholePagesAndSaysWhereThereAreNone) {
  const PageMemory memory = NewMemory(3);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % PageBytes(), 0u);
  EXPECT_EQ(std::string(memory.data(), memory.bytes()), std::string(3 * PageBytes(), '\0'));
  EXPECT_EQ(AllocatePages(1)->bytes(), PageBytes());
  EXPECT_EQ(AllocatePages(uint64_t{1} << 60).status().code(), Code::kOutOfMemory);
  EXPECT_EQ(AllocatePages(UINT64_MAX).status().code(), Code::kOutOfMemory);
}

TEST(AllocatePages, GivesBackThePagesBehindWhatIsKept) {
  PageMemory memory = NewMemory(4);
  memory.data()[PageBytes()] = 'a';
  memory.Shrink(4 * PageBytes());
  EXPECT_EQ(memory.bytes(), 4 * PageBytes());
  memory.Shrink(PageBytes() + 1);
  EXPECT_EQ(memory.bytes(), 2 * PageBytes());
  EXPECT_EQ(memory.data()[PageBytes()], 'a');
  unsigned char resident = 0;
  EXPECT_EQ(::mincore(memory.data() + 2 * PageBytes(), PageBytes(), &resident), -1);
}

TEST_P(PageWatchTest, ReportsEachWrittenPageOnce) {
  const PageMemory memory = NewMemory(200);
  const auto watch = NewWatch(GetParam(), memory);
  EXPECT_EQ(Collected(*watch), Pages{});
  for (const uint64_t page : {0, 7, 8, 63, 64, 199}) Store(memory, page);
  EXPECT_EQ(Collected(*watch), (Pages{0, 7, 8, 63, 64, 199}));
  EXPECT_EQ(Collected(*watch), Pages{});
  Store(memory, 8);
  EXPECT_EQ(Collected(*watch), Pages{8});
}

// Each Collect forgets the pages that it reports, so that a second watch would never see them.
TEST_P(PageWatchTest, APageIsWatchedByOneWatchAtATime) {
  const PageMemory memory = NewMemory(10);
  const auto new_watch = [&](WatchKind kind, uint64_t first, uint64_t pages) {
    return PageWatch::New(kind, memory.data() + first * PageBytes(), pages);
  };
  auto watch = new_watch(GetParam(), 3, 4);
  ASSERT_TRUE(watch.ok()) << watch.status().ToString();
  for (const WatchKind kind : {WatchKind::kKernel, WatchKind::kProtect}) {
    for (const auto& [first, pages] : {std::pair(0, 4), {0, 10}, {3, 4}, {4, 1}, {6, 4}}) {
      const Status status = new_watch(kind, first, pages).status();
      EXPECT_EQ(status.code(), Code::kUnsupported) << first << " " << status.ToString();
    }
  }
  EXPECT_TRUE(new_watch(GetParam(), 0, 3).ok());
  EXPECT_TRUE(new_watch(GetParam(), 7, 3).ok());
  Store(memory, 4);
  EXPECT_EQ(Collected(**watch), Pages{1});
  watch->reset();
  EXPECT_TRUE(new_watch(GetParam(), 0, 10).ok());
}

TEST_P(PageWatchTest, ALookForgetsNothing) {
  const PageMemory memory = NewMemory(200);
  const auto watch = NewWatch(GetParam(), memory);
  EXPECT_EQ(Looked(*watch), Pages{});
  for (const uint64_t page : {0, 7, 8, 199}) Store(memory, page);
  EXPECT_EQ(Looked(*watch), (Pages{0, 7, 8, 199}));
  for (const uint64_t page : {8, 64}) Store(memory, page);
  EXPECT_EQ(Looked(*watch), (Pages{0, 7, 8, 64, 199}));
  EXPECT_EQ(Collected(*watch), (Pages{0, 7, 8, 64, 199}));
  EXPECT_EQ(Looked(*watch), Pages{});
}

TEST_P(PageWatchTest, ReportsThePagesThatRandomStoresWrote) {
  constexpr uint64_t kPages = 3000;
  const PageMemory memory = NewMemory(kPages);
  const auto watch = NewWatch(GetParam(), memory);
  base::Random random(1);
  for (int round = 0; round < 60; ++round) {
    std::set<uint64_t> written;
    for (uint64_t i = random.Below(round % 3 == 0 ? 4000 : 40); i > 0; --i) {
      const uint64_t page = random.Below(kPages);
      Store(memory, page);
      written.insert(page);
    }
    ASSERT_EQ(Collected(*watch), Pages(written.begin(), written.end())) << "round " << round;
  }
}

TEST_P(PageWatchTest, LosesNothingThatThreadsWriteWhilePagesAreCollected) {
  constexpr uint64_t kPages = 64;
  constexpr int kThreads = 2;
  const PageMemory memory = NewMemory(kPages);
  const auto watch = NewWatch(GetParam(), memory);
  // Each thread counts in its own half of the pages. The last count of each must be collected after
  // it was stored, so that a copy of the reported pages ends equal.
  std::string copy(memory.data(), memory.bytes());
  std::vector<PageRun> runs;
  const auto take = [&] {
    runs.clear();
    ASSERT_TRUE(watch->Collect(&runs).ok());
    for (const PageRun& run : runs) {
      for (uint64_t at = run.first; at < run.first + run.count; ++at) {
        for (int thread = 0; thread < kThreads; ++thread) {
          const uint64_t offset = at * PageBytes() + static_cast<uint64_t>(thread) * 8;
          const uint64_t value =
              std::atomic_ref(*reinterpret_cast<uint64_t*>(memory.data() + offset))
                  .load(std::memory_order_relaxed);
          std::memcpy(copy.data() + offset, &value, sizeof(value));
        }
      }
    }
  };
  std::atomic<int> running = kThreads;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      base::Random random(static_cast<uint64_t>(thread));
      for (uint64_t i = 1; i <= 20000; ++i) {
        char* const word =
            memory.data() + random.Below(kPages) * PageBytes() + static_cast<uint64_t>(thread) * 8;
        std::atomic_ref(*reinterpret_cast<uint64_t*>(word)).store(i, std::memory_order_relaxed);
      }
      --running;
    });
  }
  while (running != 0) take();
  for (std::thread& thread : threads) thread.join();
  take();
  EXPECT_TRUE(copy == std::string(memory.data(), memory.bytes()));
}

TEST_P(PageWatchTest, EndsWithTheObject) {
  const PageMemory memory = NewMemory(4);
  NewWatch(GetParam(), memory).reset();
  for (uint64_t page = 0; page < 4; ++page) Store(memory, page);
  const auto again = NewWatch(GetParam(), memory);
  EXPECT_EQ(Collected(*again), Pages{});
  Store(memory, 2);
  EXPECT_EQ(Collected(*again), Pages{2});
}

TEST_P(PageWatchTest, ManyObjectsAreWatchedSeparately) {
  constexpr uint64_t kObjects = 500;
  const PageMemory memory = NewMemory(kObjects * 2);
  std::vector<std::unique_ptr<PageWatch>> watches;
  for (uint64_t i = 0; i < kObjects; ++i) {
    auto watch = PageWatch::New(GetParam(), memory.data() + i * 2 * PageBytes(), 2);
    ASSERT_TRUE(watch.ok()) << watch.status().ToString();
    watches.push_back(std::move(*watch));
  }
  for (uint64_t i = 0; i < kObjects; i += 2) watches[i].reset();
  for (uint64_t page = 0; page < kObjects * 2; page += 3) Store(memory, page);
  for (uint64_t i = 1; i < kObjects; i += 2) {
    Pages expected;
    if (2 * i % 3 == 0) expected.push_back(0);
    if ((2 * i + 1) % 3 == 0) expected.push_back(1);
    ASSERT_EQ(Collected(*watches[i]), expected) << "object " << i;
  }
}

TEST_P(PageWatchTest, AChildOfForkLeavesTheParentsPagesWatched) {
  const PageMemory memory = NewMemory(8);
  auto watch = NewWatch(GetParam(), memory);
  Store(memory, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    Store(memory, 2);
    std::vector<PageRun> runs;
    static_cast<void>(watch->Collect(&runs));
    Store(memory, 3);
    watch.reset();
    Store(memory, 4);
    // A child can watch its own memory.
    const PageMemory own = NewMemory(2);
    const auto childs = NewWatch(GetParam(), own);
    Store(own, 1);
    ::_exit(Collected(*childs) == Pages{1} ? 42 : 1);
  }
  int ended = 0;
  ASSERT_EQ(::waitpid(child, &ended, 0), child);
  EXPECT_EQ(WEXITSTATUS(ended), 42);
  Store(memory, 5);
  EXPECT_EQ(Collected(*watch), (Pages{1, 5}));
  Store(memory, 6);
  EXPECT_EQ(Collected(*watch), Pages{6});
}

TEST_P(PageWatchTest, AFailedSelfTestIsReportedAndNothingIsWatched) {
  const PageMemory memory = NewMemory(1);
  FailSelfTestForTests(GetParam(), true);
  const auto watch = PageWatch::New(GetParam(), memory.data(), 1);
  EXPECT_EQ(watch.status().code(), Code::kUnsupported);
  EXPECT_EQ(FirstStoreNs(GetParam()).status().code(), Code::kUnsupported);
  FailSelfTestForTests(GetParam(), false);
  EXPECT_GT(*FirstStoreNs(GetParam()), 0u);
}

TEST(KernelWatch, SeesWhatASystemCallWrote) {
  const PageMemory memory = NewMemory(8);
  auto watch = PageWatch::New(WatchKind::kKernel, memory.data(), 8);
  if (!watch.ok()) GTEST_SKIP() << "not on this machine: " << watch.status().ToString();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string sent(2 * PageBytes(), 'x');
  ASSERT_EQ(::write(ends[1], sent.data(), sent.size()), static_cast<ssize_t>(sent.size()));
  ASSERT_EQ(::read(ends[0], memory.data() + 3 * PageBytes(), sent.size()),
            static_cast<ssize_t>(sent.size()));
  EXPECT_EQ(Collected(**watch), (Pages{3, 4}));
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace quire::io::page_watch_test
