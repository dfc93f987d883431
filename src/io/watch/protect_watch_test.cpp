// Protected pages, and Quire's handler of SIGSEGV among other handlers.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "base/core/random.h"
#include "base/core/sanitizer.h"
#include "io/watch/page_watch_testing.h"
#include "io/watch/protected_pages.h"

namespace quire::io::protect_watch_test {
namespace {

TEST(ProtectWatch, ASystemCallIntoAWatchedPageFails) {
  const PageMemory memory = NewMemory(2);
  const auto watch = NewWatch(WatchKind::kProtect, memory);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  EXPECT_EQ(::read(ends[0], memory.data(), 1), -1);
  EXPECT_EQ(errno, EFAULT);
  Store(memory, 0);
  EXPECT_EQ(::read(ends[0], memory.data(), 1), 1);
  EXPECT_EQ(Collected(*watch), Pages{0});
  ::close(ends[0]);
  ::close(ends[1]);
}

// Ranges come and go in any order; the table opens a page of those that are there, and no other.
TEST(ProtectedTable, OpensPagesOfTheRangesThatAreThere) {
  constexpr size_t kRanges = 8;
  const PageMemory memory = NewMemory(kRanges);
  const auto address = [&](size_t range) {
    return reinterpret_cast<uintptr_t>(memory.data()) + range * PageBytes() + 5;
  };
  static ProtectedTable table;  // as that of the process: nothing destroys it
  std::vector<std::unique_ptr<ProtectedPages>> ranges(kRanges);
  std::vector<ProtectedPages*> there(kRanges);
  base::Random random(7);
  for (int step = 0; step < 400; ++step) {
    const size_t which = random.Below(kRanges);
    if (there[which] != nullptr) {
      table.Remove(std::move(ranges[which]));
      there[which] = nullptr;
    } else {
      char* const begin = memory.data() + which * PageBytes();
      ranges[which] = std::make_unique<ProtectedPages>(begin, 1);
      there[which] = ranges[which].get();
      table.Add(there[which]);
    }
    for (size_t range = 0; range < kRanges; ++range) {
      ASSERT_EQ(table.OpenWatched(address(range)), there[range] != nullptr) << step;
    }
  }
  for (size_t range = 0; range < kRanges; ++range) {
    if (there[range] != nullptr) table.Remove(std::move(ranges[range]));
  }
}

TEST(ProtectWatch, GivesUpBeforeTheLimitOnMappings) {
  constexpr uint64_t kPages = 80000;
  const PageMemory memory = NewMemory(kPages);
  auto watch = NewWatch(WatchKind::kProtect, memory);
  std::vector<PageRun> runs;
  // Two thirds of the usual limit are too many already.
  for (uint64_t page = 0; page < kPages / 2; page += 2) Store(memory, page);
  EXPECT_EQ(watch->Collect(&runs).code(), Code::kNoSpace);
  for (uint64_t page = kPages / 2; page < kPages; page += 2) Store(memory, page);
  EXPECT_EQ(watch->Collect(&runs).code(), Code::kNoSpace);
  EXPECT_TRUE(AllocatePages(1).ok());
  watch.reset();
  // The mappings are free again.
  watch = NewWatch(WatchKind::kProtect, memory);
  for (uint64_t page = 0; page < kPages; page += 20) Store(memory, page);
  EXPECT_EQ(Collected(*watch).size(), kPages / 20);
  base::Random random(3);
  for (uint64_t i = 0; i < kPages / 20; ++i) Store(memory, random.Below(kPages / 10));
  EXPECT_GT(Collected(*watch).size(), kPages / 40);
}

TEST(ProtectWatch, WorksOnAStackOfTheProgramsForSignals) {
  const PageMemory memory = NewMemory(4);
  const auto watch = NewWatch(WatchKind::kProtect, memory);
  std::vector<char> stack(1 << 16);
  stack_t alternate = {};
  alternate.ss_sp = stack.data();
  alternate.ss_size = stack.size();
  stack_t before;
  ASSERT_EQ(::sigaltstack(&alternate, &before), 0);
  Store(memory, 2);
  ASSERT_EQ(::sigaltstack(&before, nullptr), 0);
  EXPECT_EQ(Collected(*watch), Pages{2});
}

// These tests install handlers of their own, so each runs in a process of its own.
class ProtectWatchDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void InstallHandler(void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action = {};
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = handler;
  ASSERT_EQ(::sigaction(SIGSEGV, &action, nullptr), 0);
}

TEST_F(ProtectWatchDeathTest, AFaultElsewhereReachesTheEarlierHandlerAsEver) {
  static const char* expected = nullptr;
  EXPECT_EXIT(
      {
        InstallHandler(
            [](int, siginfo_t* info, void*) { ::_exit(info->si_addr == expected ? 42 : 1); });
        const PageMemory memory = NewMemory(2);
        const PageMemory read_only = NewMemory(1);
        const auto watch = NewWatch(WatchKind::kProtect, memory);
        Store(memory, 1);
        if (Collected(*watch) != Pages{1}) ::_exit(2);
        expected = read_only.data();
        ::mprotect(read_only.data(), PageBytes(), PROT_READ);
        Store(read_only, 0);
      },
      ::testing::ExitedWithCode(42), "");
}

TEST_F(ProtectWatchDeathTest, AFaultElsewhereEndsAProgramThatHasNoHandler) {
  const bool sanitizer = QUIRE_ADDRESS_SANITIZER != 0 || QUIRE_THREAD_SANITIZER != 0;
  if (sanitizer) GTEST_SKIP() << "the sanitizer has a handler";
  EXPECT_EXIT(
      {
        const PageMemory memory = NewMemory(1);
        const auto watch = NewWatch(WatchKind::kProtect, memory);
        *reinterpret_cast<volatile char*>(PageBytes() / 2) = 1;
        ::_exit(0);
      },
      ::testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(ProtectWatchDeathTest, AHandlerThatIsInstalledLaterIsNoticed) {
  EXPECT_EXIT(
      {
        const PageMemory memory = NewMemory(2);
        auto watch = NewWatch(WatchKind::kProtect, memory);
        InstallHandler([](int, siginfo_t*, void*) { ::_exit(1); });
        std::vector<PageRun> runs;
        if (watch->Collect(&runs).code() != Code::kUnsupported) ::_exit(2);
        watch.reset();
        Store(memory, 0);
        if (PageWatch::New(WatchKind::kProtect, memory.data(), 1).ok()) ::_exit(3);
        ::_exit(42);
      },
      ::testing::ExitedWithCode(42), "");
}

TEST_F(ProtectWatchDeathTest, ALaterHandlerMayPassOn) {
  static struct sigaction earlier;
  static std::atomic<int> passed = 0;
  EXPECT_EXIT(
      {
        const PageMemory memory = NewMemory(2);
        auto watch = NewWatch(WatchKind::kProtect, memory);
        ::sigaction(SIGSEGV, nullptr, &earlier);
        InstallHandler([](int signal, siginfo_t* info, void* context) {
          ++passed;
          earlier.sa_sigaction(signal, info, context);
        });
        Store(memory, 1);
        ::_exit(passed == 1 ? 42 : 1);
      },
      ::testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace quire::io::protect_watch_test
