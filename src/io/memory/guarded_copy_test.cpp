#include "io/memory/guarded_copy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_directory.h"

namespace quire::io::guarded_copy_test {
namespace {

size_t PageBytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

// A mapping of two pages of a file that has only the first, full of 'a': the second cannot be read.
class HalfMapping {
 public:
  HalfMapping() {
    const std::string path = directory_ / "f";
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const std::string page(PageBytes(), 'a');
    EXPECT_EQ(::pwrite(fd, page.data(), page.size(), 0), static_cast<ssize_t>(page.size()));
    void* const data = ::mmap(nullptr, 2 * PageBytes(), PROT_READ, MAP_SHARED, fd, 0);
    EXPECT_NE(data, MAP_FAILED);
    data_ = static_cast<const char*>(data);
    ::close(fd);
  }
  ~HalfMapping() { ::munmap(const_cast<char*>(data_), 2 * PageBytes()); }
  const char* there() const { return data_; }
  const char* lost() const { return data_ + PageBytes(); }

 private:
  test::TempDirectory directory_;
  const char* data_ = nullptr;
};

void LoadFrom(const char* place) { static_cast<void>(*static_cast<const volatile char*>(place)); }

void InstallPlainHandler(void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ASSERT_EQ(::sigaction(SIGBUS, &action, nullptr), 0);
}

// Runs each statement in a process of its own, so that it finds only its own handlers.
class GuardedCopyDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST(GuardedCopy, CopiesWhatIsThere) {
  ASSERT_TRUE(PrepareGuardedCopies());
  const std::string from = "some bytes";
  std::string to(from.size(), '\0');
  EXPECT_TRUE(GuardedCopy(from.data(), from.size(), to.data()));
  EXPECT_EQ(to, from);
}

TEST(GuardedCopy, FailsWhereAPageIsLostAndCanBeTriedAgain) {
  ASSERT_TRUE(PrepareGuardedCopies());
  const HalfMapping mapping;
  std::string to(2 * PageBytes(), '\0');
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(GuardedCopy(mapping.lost(), 1, to.data()));
    EXPECT_FALSE(GuardedTouch(mapping.lost() - 3, 4));
    EXPECT_FALSE(GuardedTouch(mapping.there(), to.size()));
    EXPECT_TRUE(GuardedTouch(mapping.there(), PageBytes()));
    EXPECT_TRUE(GuardedTouch(mapping.lost(), 0));
    EXPECT_FALSE(GuardedCopy(mapping.lost() - 3, 6, to.data()));
    EXPECT_FALSE(GuardedCopy(mapping.there(), to.size(), to.data()));
    EXPECT_TRUE(GuardedCopy(mapping.there(), PageBytes(), to.data()));
    EXPECT_EQ(to.substr(0, PageBytes()), std::string(PageBytes(), 'a'));
  }
}

TEST(GuardedCopy, LeavesTheSignalMaskAsItWas) {
  ASSERT_TRUE(PrepareGuardedCopies());
  const HalfMapping mapping;
  sigset_t mask;
  ::sigemptyset(&mask);
  ::sigaddset(&mask, SIGUSR1);
  sigset_t before;
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &mask, &before), 0);
  char to = 0;
  EXPECT_FALSE(GuardedCopy(mapping.lost(), 1, &to));
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &before, &mask), 0);
  EXPECT_EQ(::sigismember(&mask, SIGUSR1), 1);
  EXPECT_EQ(::sigismember(&mask, SIGBUS), 0);
}

TEST(GuardedCopy, FaultsOfManyThreadsAreTheirOwn) {
  ASSERT_TRUE(PrepareGuardedCopies());
  const HalfMapping mapping;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&mapping, thread] {
      std::string to(64, '\0');
      for (int i = 0; i < 500; ++i) {
        const bool lost = (i + thread) % 2 == 0;
        EXPECT_EQ(GuardedCopy(lost ? mapping.lost() : mapping.there(), to.size(), to.data()),
                  !lost);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GuardedCopyDeathTest, AFaultElsewhereReachesTheProgramsHandler) {
  EXPECT_EXIT(
      {
        const HalfMapping mapping;
        InstallPlainHandler([](int) { ::_exit(42); }, 0);
        char to = 0;
        if (!PrepareGuardedCopies() || GuardedCopy(mapping.lost(), 1, &to)) ::_exit(1);
        LoadFrom(mapping.lost());
      },
      ::testing::ExitedWithCode(42), "");
}

TEST_F(GuardedCopyDeathTest, AFaultOfTheTargetReachesTheProgramsHandlerAsEver) {
  static const char* expected = nullptr;
  EXPECT_EXIT(
      {
        const HalfMapping mapping;
        struct sigaction action = {};
        action.sa_flags = SA_SIGINFO;
        ::sigaddset(&action.sa_mask, SIGUSR1);
        action.sa_sigaction = [](int, siginfo_t* info, void*) {
          sigset_t mask;
          ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
          ::_exit(info->si_addr == expected && ::sigismember(&mask, SIGUSR1) == 1 ? 42 : 1);
        };
        ::sigaction(SIGBUS, &action, nullptr);
        expected = mapping.lost();
        char* const target = const_cast<char*>(mapping.lost());
        ::mprotect(target, PageBytes(), PROT_READ | PROT_WRITE);
        if (!PrepareGuardedCopies()) ::_exit(1);
        static_cast<void>(GuardedCopy(mapping.there(), 1, target));
      },
      ::testing::ExitedWithCode(42), "");
}

TEST_F(GuardedCopyDeathTest, AFaultElsewhereEndsAProgramThatHasNoHandler) {
  for (void (*const handler)(int) : {SIG_DFL, SIG_IGN}) {
    EXPECT_EXIT(
        {
          const HalfMapping mapping;
          InstallPlainHandler(handler, 0);
          if (!PrepareGuardedCopies()) ::_exit(1);
          LoadFrom(mapping.lost());
          ::_exit(0);
        },
        ::testing::KilledBySignal(SIGBUS), "");
  }
}

TEST_F(GuardedCopyDeathTest, ASignalThatIsSentDoesWhatItDidBefore) {
  EXPECT_EXIT(
      {
        InstallPlainHandler(SIG_DFL, 0);
        if (!PrepareGuardedCopies()) ::_exit(1);
        ::raise(SIGBUS);
        ::_exit(0);
      },
      ::testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(
      {
        InstallPlainHandler(SIG_IGN, 0);
        if (!PrepareGuardedCopies()) ::_exit(1);
        ::raise(SIGBUS);
        ::_exit(42);
      },
      ::testing::ExitedWithCode(42), "");
}

TEST_F(GuardedCopyDeathTest, AHandlerForOneSignalIsCalledOnce) {
  static std::atomic<int> calls = 0;
  EXPECT_EXIT(
      {
        InstallPlainHandler(
            [](int) {
              if (++calls > 1) ::_exit(1);
            },
            static_cast<int>(SA_RESETHAND));
        if (!PrepareGuardedCopies()) ::_exit(1);
        ::raise(SIGBUS);
        if (calls != 1) ::_exit(2);
        ::raise(SIGBUS);
        ::_exit(3);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace quire::io::guarded_copy_test
