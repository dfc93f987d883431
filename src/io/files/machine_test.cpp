#include "io/files/machine.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash/hash.h"
#include "io/files/proc_file.h"
#include "io/ipc/shared_memory.h"
#include "tests/support/temp_directory.h"

namespace quire::io::machine_test {
namespace {

using test::TempDirectory;

constexpr uint64_t kMiB = 1 << 20;

TEST(Machine, ClockMovesForward) {
  Clock& clock = RealClock();
  const uint64_t before = clock.NowNs();
  clock.SleepNs(2'000'000);
  EXPECT_GE(clock.NowNs() - before, 2'000'000u);
}

TEST(Machine, KnowsItself) {
  EXPECT_TRUE(CheckMachine().ok());
  EXPECT_NE(BootId(), 0u);
  EXPECT_EQ(BootId(), BootId());
  EXPECT_GE(CoreCount(), 1);
  EXPECT_GT(MemoryLimitBytes(), kMiB);
  EXPECT_EQ(ProcessId(), ::getpid());
  std::set<uint64_t> numbers;
  for (int i = 0; i < 100; ++i) numbers.insert(RandomU64());
  EXPECT_EQ(numbers.size(), 100u);
}

// Runs in a process of its own, which has not read the boot id before.
[[noreturn]] void AskForTheBootWithoutDescriptors() {
  struct rlimit limit {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const struct rlimit none = {0, limit.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  const Code short_of_them = CheckMachine().code();
  const uint64_t unknown = BootId();
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const uint64_t known = base::HashKey(ReadProcFile("/proc/sys/kernel/random/boot_id"));
  const bool right = short_of_them == Code::kOutOfMemory && unknown != known && BootId() == known;
  ::_exit(right ? 0 : 1);
}

TEST(MachineDeathTest, ABootThatCouldNotBeReadForLackOfADescriptorIsReadLater) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(AskForTheBootWithoutDescriptors(), testing::ExitedWithCode(0), "");
}

TEST(Machine, NodeIdCanBeForced) {
  ASSERT_EQ(::unsetenv("QUIRE_NODE_ID"), 0);
  const uint64_t own = NodeId();
  EXPECT_EQ(NodeId(), own);
  ASSERT_EQ(::setenv("QUIRE_NODE_ID", "other", 1), 0);
  EXPECT_EQ(NodeId(), base::HashKey("other"));
  EXPECT_NE(NodeId(), own);
  EXPECT_EQ(Environment("QUIRE_NODE_ID"), "other");
  ASSERT_EQ(::unsetenv("QUIRE_NODE_ID"), 0);
  EXPECT_EQ(Environment("QUIRE_NODE_ID"), std::nullopt);
}

TEST(Machine, ListsEnvironmentVariablesThatHaveAValue) {
  const std::string prefix = "QUIRE_MACHINE_TEST_";
  for (const auto& [name, value] : {std::pair{"TWO", "2=2"}, {"ONE", "1"}, {"NONE", ""}}) {
    ASSERT_EQ(::setenv((prefix + name).c_str(), value, 1), 0);
  }
  EXPECT_EQ(EnvironmentNames(prefix), (std::vector{prefix + "ONE", prefix + "TWO"}));
  for (const char* name : {"TWO", "ONE", "NONE"}) ::unsetenv((prefix + name).c_str());
  EXPECT_TRUE(EnvironmentNames(prefix).empty());
}

TEST(Machine, PathsBeginWhereTheProgramRuns) {
  EXPECT_EQ(*AbsolutePath("/a/b"), "/a/b");
  const std::string relative = *AbsolutePath("a/b");
  EXPECT_EQ(relative[0], '/');
  EXPECT_EQ(relative.substr(relative.size() - 4), "/a/b");
  EXPECT_EQ(*AbsolutePath("."), std::filesystem::current_path().string());
  EXPECT_EQ(*AbsolutePath("./a//b/."), relative);
  EXPECT_EQ(*AbsolutePath("//a/./b//"), "/a/b");
  EXPECT_EQ(*AbsolutePath("/"), "/");
  EXPECT_EQ(*AbsolutePath("/.."), "/");
  EXPECT_EQ(AbsolutePath("").status().code(), Code::kInvalidArgument);
}

TEST(Machine, TheDirectoryAboveALinkIsThatOfWhatItLeadsTo) {
  const test::TempDirectory root;
  const std::string real = *AbsolutePath(root / ".." + root.path().substr(root.path().rfind('/')));
  std::filesystem::create_directories(root / "far/away");
  std::filesystem::create_directory_symlink(root / "far/away", root / "link");
  EXPECT_EQ(*AbsolutePath(root / "link/../x"), real + "/far/x");
  EXPECT_EQ(AbsolutePath(root / "link/x/..").status().code(), Code::kNotFound);
}

TEST(Machine, DescribesTheProcessForLockFiles) {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"}) {
    ASSERT_EQ(::unsetenv(name), 0);
  }
  const std::string plain = ProcessDescription();
  EXPECT_NE(plain.find(" pid " + std::to_string(::getpid())), std::string::npos);
  EXPECT_EQ(plain.find(" job "), std::string::npos);
  ASSERT_EQ(::setenv("SLURM_JOB_ID", "456", 1), 0);
  EXPECT_EQ(ProcessDescription(), plain + " job 456");
  ASSERT_EQ(::unsetenv("SLURM_JOB_ID"), 0);
}

TEST(Machine, DeadProcessesAreNotAliveEvenBeforeTheyAreCollected) {
  EXPECT_TRUE(ProcessAlive(::getpid()));
  EXPECT_TRUE(ProcessAlive(1));
  EXPECT_FALSE(ProcessAlive(0));
  EXPECT_FALSE(ProcessAlive(-1));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(ProcessAlive(child));  // a zombie now
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(ProcessAlive(child));
}

TEST(Machine, MemoryInUseGrowsWithUse) {
  const MemoryUse before = ProcessMemory();
  EXPECT_GT(before.resident_bytes, 0u);
  EXPECT_GE(before.resident_bytes, before.anonymous_bytes);
  EXPECT_GE(before.peak_resident_bytes, before.resident_bytes / 2);
  std::string block(32 * kMiB, 'x');
  EXPECT_GT(ProcessMemory().anonymous_bytes, before.anonymous_bytes + 16 * kMiB);
  EXPECT_EQ(block.back(), 'x');
}

class MemoryLimitTest : public ::testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  uint64_t Limit() const { return MemoryLimitBytesUnder(root_.path()); }

  TempDirectory root_;
};

TEST_F(MemoryLimitTest, IsTheMachinesMemoryWithoutGroups) {
  Put("proc/meminfo", "MemFree: 5 kB\nMemTotal:       1024 kB\n");
  EXPECT_EQ(Limit(), kMiB);
}

TEST_F(MemoryLimitTest, IsTheSmallestOfTheGroupsAbove) {
  Put("proc/meminfo", "MemTotal: 1024000 kB\n");
  Put("proc/self/cgroup", "0::/a/b\n");
  Put("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(Limit(), 1024000u * 1024);
  Put("sys/fs/cgroup/a/memory.max", "5000000\n");
  EXPECT_EQ(Limit(), 5000000u);
  Put("sys/fs/cgroup/a/b/memory.max", "6000000\n");
  EXPECT_EQ(Limit(), 5000000u);
  Put("sys/fs/cgroup/a/b/memory.max", "4000000\n");
  EXPECT_EQ(Limit(), 4000000u);
  Put("sys/fs/cgroup/memory.max", "3000000\n");
  EXPECT_EQ(Limit(), 3000000u);
}

TEST_F(MemoryLimitTest, AContainersLimitIsFoundAtItsRoot) {
  Put("proc/meminfo", "MemTotal: 1024000 kB\n");
  Put("proc/self/cgroup", "0::/../../docker/123\n");
  Put("sys/fs/cgroup/memory.max", "7000000\n");
  EXPECT_EQ(Limit(), 7000000u);
}

TEST_F(MemoryLimitTest, ALimitOfVersionOneIsFound) {
  Put("proc/meminfo", "MemTotal: 1024000 kB\n");
  Put("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:hugetlb,memory:/jobs/9\n0::/\n");
  Put("sys/fs/cgroup/memory/jobs/9/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Limit(), 1024000u * 1024);
  Put("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "8000000\n");
  EXPECT_EQ(Limit(), 8000000u);
}

TEST_F(MemoryLimitTest, IgnoresNonsense) {
  Put("proc/meminfo", "MemTotal: 1024 kB\n");
  Put("proc/self/cgroup", "nonsense\n::\n0::\n4:memory");
  Put("sys/fs/cgroup/memory.max", "99999999999999999999999999\n");
  EXPECT_EQ(Limit(), kMiB);
}

TEST(ProcFile, FieldsAreWholeLabels) {
  EXPECT_EQ(ProcField("XVmRSS: 7\nVmRSS:\t 12 kB\n", "VmRSS:"), 12u);
  EXPECT_EQ(ProcField("VmRSS: x", "VmRSS:"), 0u);
  EXPECT_EQ(ProcField("VmRSS:", "VmRSS:"), 0u);
  EXPECT_EQ(ProcField("", "VmRSS:"), 0u);
  EXPECT_EQ(ReadProcFile("/proc/no-such-file"), "");
}

TEST(SharedMemory, TakesTheRoomThatWasSetAside) {
  auto memory = SharedMemory::Create(64 * kMiB, 4096);
  ASSERT_TRUE(memory.ok());
  const auto taken = [&] {
    struct stat info;
    EXPECT_EQ(::stat(("/dev/shm/" + (*memory)->name()).c_str(), &info), 0);
    return static_cast<uint64_t>(info.st_blocks) * 512;
  };
  EXPECT_LE(taken(), 4 * kMiB) << "a huge page, perhaps";
  ASSERT_TRUE((*memory)->SetAside(16 * kMiB, 16 * kMiB).ok());
  const uint64_t after = taken();
  EXPECT_GE(after, 16 * kMiB);
  EXPECT_LE(after, 24 * kMiB);
  (*memory)->data()[32 * kMiB - 1] = 'x';
  EXPECT_TRUE((*memory)->SetAside(16 * kMiB, 16 * kMiB).ok());
  EXPECT_EQ((*memory)->data()[32 * kMiB - 1], 'x');
  EXPECT_EQ(taken(), after);
  (*memory)->Unlink();
  EXPECT_TRUE((*memory)->SetAside(48 * kMiB, kMiB).ok()) << "also without its name";
}

TEST(SharedMemory, ShowsTheSameBytesByNameAndLosesItsNameAtUnlink) {
  auto memory = SharedMemory::Create(kMiB);
  ASSERT_TRUE(memory.ok()) << memory.status().ToString();
  EXPECT_EQ((*memory)->size(), kMiB);
  EXPECT_EQ((*memory)->data()[kMiB - 1], 0);
  const std::string name = (*memory)->name();
  EXPECT_EQ(name.substr(0, name.rfind('-')),
            "quire-" + std::to_string(::geteuid()) + "-" + std::to_string(::getpid()));
  auto writer = SharedMemory::Open(name, kMiB, SharedMemory::Access::kReadWrite);
  auto reader = SharedMemory::Open(name, 4096, SharedMemory::Access::kRead);
  ASSERT_TRUE(writer.ok() && reader.ok());
  (*memory)->Unlink();
  (*memory)->Unlink();
  std::strcpy((*writer)->data() + 10, "shared");
  EXPECT_STREQ((*memory)->data() + 10, "shared");
  EXPECT_STREQ((*reader)->data() + 10, "shared");
  EXPECT_EQ(SharedMemory::Open(name, 4096, SharedMemory::Access::kRead).status().code(),
            Code::kNotFound);
}

TEST(SharedMemory, GoesWithItsCreatorWhereItWasNotUnlinked) {
  std::string name;
  {
    auto memory = SharedMemory::Create(4096);
    ASSERT_TRUE(memory.ok());
    name = (*memory)->name();
    EXPECT_TRUE(std::filesystem::exists("/dev/shm/" + name));
  }
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/" + name));
}

TEST(SharedMemory, RefusesWhatIsNotItsOwn) {
  using Access = SharedMemory::Access;
  auto memory = SharedMemory::Create(4096);
  ASSERT_TRUE(memory.ok());
  const std::string& name = (*memory)->name();
  EXPECT_EQ(SharedMemory::Open(name, 4097, Access::kRead).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(SharedMemory::Open(name, 0, Access::kRead).status().code(), Code::kInvalidArgument);
  for (const char* bad : {"../../etc/passwd", "passwd", "", "quire-/../x"}) {
    EXPECT_EQ(SharedMemory::Open(bad, 1, Access::kRead).status().code(), Code::kInvalidArgument);
  }
  ASSERT_EQ(::chmod(("/dev/shm/" + name).c_str(), 0644), 0);
  const Status status = SharedMemory::Open(name, 4096, Access::kRead).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("is open to other users"), std::string::npos);
}

TEST(SharedMemory, MoreThanThereIsIsRefusedAtCreation) {
  const auto memory = SharedMemory::Create(uint64_t{1} << 50);
  EXPECT_EQ(memory.status().code(), Code::kNoSpace) << memory.status().ToString();
  EXPECT_NE(memory.status().message().find("/dev/shm"), std::string::npos);
  EXPECT_EQ(SharedMemory::Create(0).status().code(), Code::kInvalidArgument);
}

TEST(SharedMemory, MayBePrivate) {
  auto memory = SharedMemory::CreatePrivate(10000);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ((*memory)->name(), "");
  EXPECT_EQ((*memory)->size(), 10000u);
  std::memset((*memory)->data(), 1, 10000);
  (*memory)->Unlink();
}

TEST(Futex, WaitsAcrossProcessesUntilWoken) {
  auto memory = SharedMemory::Create(4096);
  ASSERT_TRUE(memory.ok());
  auto* word = reinterpret_cast<std::atomic<uint32_t>*>((*memory)->data());
  const pid_t child = ::fork();
  if (child == 0) {
    for (int i = 0; i < 100 && word->load() == 0; ++i) FutexWait(word, 0, 100'000'000);
    ::_exit(word->load() == 1 ? 0 : 1);
  }
  word->store(1);
  FutexWake(word, 1);
  int exit_status = -1;
  ASSERT_EQ(::waitpid(child, &exit_status, 0), child);
  EXPECT_EQ(exit_status, 0);
}

TEST(Futex, ReturnsAtOnceWhereTheWordDiffersAndAfterItsTime) {
  std::atomic<uint32_t> word{5};
  Clock& clock = RealClock();
  uint64_t begin = clock.NowNs();
  FutexWait(&word, 4, ~uint64_t{0});
  EXPECT_LT(clock.NowNs() - begin, 1'000'000'000u);
  begin = clock.NowNs();
  FutexWait(&word, 5, 3'000'000);
  EXPECT_GE(clock.NowNs() - begin, 2'000'000u);
}

TEST(Futex, WakesThreadsSleepingLong) {
  std::atomic<uint32_t> word{0};
  std::thread sleeper([&word] {
    while (word.load() == 0) FutexWait(&word, 0, ~uint64_t{0});
  });
  word.store(1);
  FutexWake(&word, 1);
  sleeper.join();
}

}  // namespace
}  // namespace quire::io::machine_test
