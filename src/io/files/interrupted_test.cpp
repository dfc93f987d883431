// Calls of the system that a signal interrupts, or that move less than they were asked to, are
// continued. This program is linked with --wrap for each of them (CMakeLists.txt): while a test is
// armed every second call fails with EINTR, and reads and writes move a few bytes only.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "io/files/file_system.h"
#include "io/files/file_system_type.h"
#include "io/files/machine.h"
#include "io/files/proc_file.h"
#include "io/files/room.h"
#include "io/ipc/sealed_memory.h"
#include "io/ipc/shared_memory.h"
#include "quire/log.h"
#include "tests/support/temp_directory.h"

namespace {

constexpr size_t kMovedBytesMax = 1000;
bool armed = false;
std::map<std::string, int>* calls = nullptr;  // by name, while armed
int directory_sync_error = 0;                 // error of fsync of a directory; 0: none
int lock_error = 0;                           // error of calls about locks; 0: none
int madvise_error = 0;    // error of a call that brings pages in; 0: none
int statx_error = 0;      // error of statx; 0: none
uint32_t file_system = 0;  // type of all file systems in statfs; 0: the real one
int file_flags = 0;        // of all files, for ioctl, if file_system is not 0
int file_flags_error = 0;  // error of a call that sets flags; 0: it sets them
off_t fallocate_max = 0;  // a larger call is interrupted, as by an old tmpfs; 0: as armed

// Returns whether a signal interrupts this call of `name`.
bool Interrupted(const char* name) { return armed && (*calls)[name]++ % 2 == 0; }

size_t Shortened(size_t size) { return armed ? std::min(size, kMovedBytesMax) : size; }

}  // namespace

extern "C" {

// Wraps calls that return -1 and set errno.
#define QUIRE_WRAP(result, name, parameters, arguments) \
  result __real_##name parameters;                      \
  result __wrap_##name parameters;                      \
  result __wrap_##name parameters {                     \
    if (!Interrupted(#name)) return __real_##name arguments; \
    errno = EINTR;                                      \
    return -1;                                          \
  }

QUIRE_WRAP(ssize_t, pread, (int fd, void* to, size_t size, off_t at), (fd, to, Shortened(size), at))
QUIRE_WRAP(ssize_t, pwrite, (int fd, const void* from, size_t size, off_t at),
           (fd, from, Shortened(size), at))
QUIRE_WRAP(ssize_t, read, (int fd, void* to, size_t size), (fd, to, Shortened(size)))
QUIRE_WRAP(int, fdatasync, (int fd), (fd))

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
  struct stat info;
  if (directory_sync_error != 0 && ::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    errno = directory_sync_error;
    return -1;
  }
  if (!Interrupted("fsync")) return __real_fsync(fd);
  errno = EINTR;
  return -1;
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (lock_error == 0 || (command != F_OFD_SETLK && command != F_OFD_GETLK)) {
    return __real_fcntl(fd, command, argument);
  }
  errno = lock_error;
  return -1;
}

int __real_fallocate(int fd, int mode, off_t at, off_t size);
int __wrap_fallocate(int fd, int mode, off_t at, off_t size);
int __wrap_fallocate(int fd, int mode, off_t at, off_t size) {
  const bool interrupted = fallocate_max == 0 ? Interrupted("fallocate") : size > fallocate_max;
  if (fallocate_max != 0) ++(*calls)["fallocate"];
  if (!interrupted) return __real_fallocate(fd, mode, at, size);
  errno = EINTR;
  return -1;
}

int __real_madvise(void* from, size_t size, int advice);
int __wrap_madvise(void* from, size_t size, int advice);
int __wrap_madvise(void* from, size_t size, int advice) {
  constexpr int kPopulateRead = 22;
  constexpr int kPopulateWrite = 23;
  const bool brings_in = advice == kPopulateRead || advice == kPopulateWrite;
  if (madvise_error == 0 || !brings_in) return __real_madvise(from, size, advice);
  errno = madvise_error;
  return -1;
}

int __real_statx(int fd, const char* path, int flags, unsigned mask, struct statx* more);
int __wrap_statx(int fd, const char* path, int flags, unsigned mask, struct statx* more);
int __wrap_statx(int fd, const char* path, int flags, unsigned mask, struct statx* more) {
  if (statx_error == 0) return __real_statx(fd, path, flags, mask, more);
  errno = statx_error;
  return -1;
}

static int OnFileSystem(int result, struct statfs* info) {
  if (result == 0 && file_system != 0) info->f_type = file_system;
  return result;
}

int __real_statfs(const char* path, struct statfs* info);
int __wrap_statfs(const char* path, struct statfs* info);
int __wrap_statfs(const char* path, struct statfs* info) {
  return OnFileSystem(__real_statfs(path, info), info);
}

int __real_fstatfs(int fd, struct statfs* info);
int __wrap_fstatfs(int fd, struct statfs* info);
int __wrap_fstatfs(int fd, struct statfs* info) {
  return OnFileSystem(__real_fstatfs(fd, info), info);
}

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (file_system == 0) return __real_ioctl(fd, request, argument);
  if (request == FS_IOC_GETFLAGS) {
    *static_cast<int*>(argument) = file_flags;
    return 0;
  }
  if (request == FS_IOC_SETFLAGS && file_flags_error == 0) {
    file_flags = *static_cast<int*>(argument);
    return 0;
  }
  errno = file_flags_error == 0 ? ENOTTY : file_flags_error;
  return -1;
}

QUIRE_WRAP(int, msync, (void* from, size_t size, int flags), (from, size, flags))
QUIRE_WRAP(int, ftruncate, (int fd, off_t size), (fd, size))
QUIRE_WRAP(int, statvfs, (const char* path, struct statvfs* info), (path, info))
QUIRE_WRAP(ssize_t, getrandom, (void* to, size_t size, unsigned flags), (to, size, flags))

// This one returns the error.
int __real_clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* rest);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* rest);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* rest) {
  if (!Interrupted("clock_nanosleep")) return __real_clock_nanosleep(clock, flags, time, rest);
  if (time != rest) *rest = *time;  // all of it is left
  return EINTR;
}

int __real_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = va_arg(arguments, unsigned);  // garbage if there is none, and not used then
  va_end(arguments);
  if (!Interrupted("open")) return __real_open(path, flags, mode);
  errno = EINTR;
  return -1;
}

}  // extern "C"

namespace quire::io::interrupted_test {
namespace {

constexpr uint32_t kLustre = 0x0BD00BD0;
constexpr uint32_t kZfs = 0x2FC12FC1;
constexpr uint32_t kBcachefs = 0xCA451A4E;

class Interrupted : public testing::Test {
 protected:
  void SetUp() override {
    calls = &calls_;
    armed = true;
  }
  void TearDown() override {
    armed = false;
    directory_sync_error = lock_error = madvise_error = statx_error = 0;
    file_system = 0;
    file_flags = file_flags_error = 0;
    fallocate_max = 0;
    SetLogSink(nullptr);
  }
  // Returns how often `name` was called: the interrupted call, and the next one that succeeded.
  int Calls(const std::string& name) { return calls_[name]; }

  test::TempDirectory directory_;
  FileSystem& fs_ = PosixFileSystem();
  const std::string path_ = directory_ / "file";

 private:
  std::map<std::string, int> calls_;
};

TEST_F(Interrupted, ReadsAndWritesMoveAllBytes) {
  std::string bytes;
  for (size_t i = 0; i < 10 * kMovedBytesMax; ++i) bytes += static_cast<char>(i * 7 % 251);
  const auto file = fs_.Open(path_, FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(Calls("open"), 2);
  const Status written = (*file)->WriteAt(3, bytes);
  ASSERT_TRUE(written.ok()) << written.ToString();
  EXPECT_EQ(Calls("pwrite"), 20);
  std::string read(bytes.size(), '\0');
  const Status status = (*file)->ReadAt(3, read.size(), read.data());
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(Calls("pread"), 20);
  EXPECT_EQ(read, bytes);
}

TEST_F(Interrupted, FilesAreSetAsideCutAndSynced) {
  const auto file = fs_.Open(path_, FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_TRUE((*file)->Allocate(10'000).ok());
  EXPECT_GE(Calls("fallocate"), 2);
  EXPECT_EQ(*(*file)->Size(), 10'000u);
  EXPECT_TRUE((*file)->Truncate(5'000).ok());
  EXPECT_EQ(Calls("ftruncate"), 2);
  EXPECT_EQ(*(*file)->Size(), 5'000u);
  EXPECT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(Calls("fdatasync"), 2);
  const auto map = fs_.Map(path_, 5'000, MapMode::kReadWrite);
  ASSERT_TRUE(map.ok()) << map.status().ToString();
  EXPECT_TRUE((*map)->Sync(4'500, 100).ok());
  EXPECT_EQ(Calls("msync"), 2);
  EXPECT_TRUE(fs_.SyncDirectory(directory_.path()).ok());
  EXPECT_EQ(Calls("fsync"), 2);
  EXPECT_TRUE(fs_.FreeBytes(directory_.path()).ok());
  EXPECT_EQ(Calls("statvfs"), 2);
}

TEST_F(Interrupted, SharedMemoryIsMade) {
  const auto memory = SharedMemory::Create(10'000);
  ASSERT_TRUE(memory.ok()) << memory.status().ToString();
  EXPECT_EQ(Calls("open"), 2);
  EXPECT_EQ(Calls("fallocate"), 2);
  const auto again =
      SharedMemory::Open((*memory)->name(), 10'000, SharedMemory::Access::kReadWrite);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(Calls("open"), 4);
}

TEST_F(Interrupted, RoomIsSetAsideInPiecesThatEndBetweenSignals) {
  armed = false;
  constexpr uint64_t kSize = 64 << 20;
  fallocate_max = 1 << 20;
  const auto file = fs_.Open(path_, FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const Status allocated = (*file)->Allocate(kSize);
  EXPECT_TRUE(allocated.ok()) << allocated.ToString();
  EXPECT_EQ(*(*file)->Size(), kSize);
  EXPECT_EQ(Calls("fallocate"), 6 + 64) << "none anew of what was there";
  struct stat info;
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_GE(static_cast<uint64_t>(info.st_blocks) * 512, kSize);
  EXPECT_TRUE(SharedMemory::Create(8 << 20).ok());
  EXPECT_TRUE(SealedMemory::Create(8 << 20).ok());
}

TEST_F(Interrupted, RoomThatNoSmallPieceGetsIsAnErrorInTheEnd) {
  armed = false;
  fallocate_max = 1;
  const auto file = fs_.Open(path_, FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const Status allocated = (*file)->Allocate(64 << 20);
  EXPECT_EQ(allocated.code(), Code::kIo);
  EXPECT_NE(allocated.message().find("signals"), std::string::npos) << allocated.ToString();
  EXPECT_EQ(Calls("fallocate"), kInterruptionsMax);
  EXPECT_FALSE(SharedMemory::Create(1 << 20).ok());
  EXPECT_FALSE(SealedMemory::Create(1 << 20).ok());
}

// The message is logged once in a process, so that no earlier test may cause it.
TEST_F(Interrupted, ADirectoryThatCannotBeSyncedIsLoggedOnceAndNoFailure) {
  armed = false;
  std::vector<std::string> said;
  SetLogSink([&said](LogLevel, const std::string& text) { said.push_back(text); });
  for (const int error : {EINVAL, ENOSYS, EOPNOTSUPP}) {
    directory_sync_error = error;
    EXPECT_TRUE(MakeDurableDirectory(fs_, directory_ / std::to_string(error)).ok());
    EXPECT_TRUE(ReplaceFile(fs_, path_, "bytes").ok());
  }
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("cannot be synced (Invalid argument"), std::string::npos) << said[0];
  directory_sync_error = EIO;
  EXPECT_EQ(fs_.SyncDirectory(directory_.path()).code(), Code::kIo);
}

TEST_F(Interrupted, WithoutLocksWritersAreRefusedWithAdviceAndReadersRead) {
  armed = false;
  ASSERT_TRUE(WriteFile(fs_, path_, "a file").ok());
  for (const int error : {ENOSYS, EOPNOTSUPP, EINVAL}) {
    lock_error = error;
    const Status locked = fs_.Lock(path_, "me").status();
    EXPECT_EQ(locked.code(), Code::kUnsupported);
    EXPECT_NE(locked.message().find("its file system (" + FileSystemType(path_) + ")"),
              std::string::npos)
        << locked.ToString();
    EXPECT_TRUE(fs_.LockShared(path_).ok());
    const auto holder = fs_.LockHolder(path_);
    ASSERT_TRUE(holder.ok()) << holder.status().ToString();
    EXPECT_EQ(*holder, "");
  }
  lock_error = ENOSYS;
  const std::string another = "choose a repository on another file system";
  const auto advice = [&](uint32_t type) {
    file_system = type;
    const std::string text(fs_.Lock(path_, "me").status().message());
    return text.substr(text.rfind("; ") + 2);
  };
  EXPECT_EQ(advice(EXT4_SUPER_MAGIC), another);
  EXPECT_EQ(advice(kLustre), "have it mounted with the option flock, or " + another);
  EXPECT_EQ(advice(NFS_SUPER_MAGIC),
            "have its server run a lock manager (NFS 3: no nolock), or " + another);
  lock_error = ENOLCK;  // may pass
  EXPECT_EQ(fs_.Lock(path_, "me").status().code(), Code::kIo);
  EXPECT_EQ(fs_.LockShared(path_).status().code(), Code::kIo);
}

TEST_F(Interrupted, RoomThatIsNoPromiseIsWarnedOfOnce) {
  armed = false;
  std::vector<std::string> said;
  SetLogSink([&said](LogLevel level, const std::string& text) {
    EXPECT_EQ(level, LogLevel::kWarning);
    said.push_back(text);
  });
  for (const uint32_t type : {kZfs, kBcachefs}) {
    file_system = type;
    for (int i = 0; i < 2; ++i) {
      const auto file =
          fs_.Open(path_ + std::to_string(type) + std::to_string(i), FileOpenMode::kCreate);
      ASSERT_TRUE(file.ok()) << file.status().ToString();
      EXPECT_TRUE((*file)->Allocate(10'000).ok());
    }
  }
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].find(path_), 0u) << said[0];
  EXPECT_NE(said[0].find(" is on zfs, which writes each change to a new place"), std::string::npos)
      << said[0];
  EXPECT_STREQ(AlwaysWritesElsewhere(kBcachefs), "bcachefs");
  EXPECT_EQ(file_flags, 0) << "there is none to be set";
}

TEST_F(Interrupted, OnBtrfsANewFileIsWrittenInPlaceOrThatItIsNotIsLogged) {
  armed = false;
  std::vector<std::string> said;
  SetLogSink([&said](LogLevel, const std::string& text) { said.push_back(text); });
  file_system = BTRFS_SUPER_MAGIC;
  file_flags = FS_NOATIME_FL;
  auto file = fs_.Open(path_, FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_TRUE((*file)->Allocate(10'000).ok());
  EXPECT_EQ(file_flags, FS_NOATIME_FL | FS_NOCOW_FL);
  EXPECT_TRUE((*file)->Allocate(20'000).ok());
  EXPECT_TRUE(said.empty()) << said[0];

  // btrfs would set the flag, without any effect.
  file_flags = 0;
  EXPECT_TRUE((*file)->Allocate(30'000).ok());
  EXPECT_EQ(file_flags, 0) << "the file has contents";
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].find(path_ + " is written to a new place at each change (btrfs"), 0u)
      << said[0];

  file_flags_error = EINVAL;  // as in a directory with compression
  file = fs_.Open(path_ + "2", FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_TRUE((*file)->Allocate(10'000).ok());
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[1].find(path_ + "2 is written to a new place at each change (btrfs"), 0u)
      << said[1];
}

// A load that fails would end such a thread.
template <typename Body>
void InAThreadThatBlocksBusErrors(const Body& body) {
  sigset_t bus_error;
  sigset_t before;
  ::sigemptyset(&bus_error);
  ::sigaddset(&bus_error, SIGBUS);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &bus_error, &before), 0);
  std::thread(body).join();
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
}

TEST_F(Interrupted, AnOlderKernelReadsPagesInByCalls) {
  armed = false;
  constexpr uint64_t kBytes = (2 << 20) + 100;
  ASSERT_TRUE(WriteFile(fs_, path_, std::string(kBytes, 'a')).ok());
  const auto map = fs_.Map(path_, kBytes, MapMode::kReadWrite);
  ASSERT_TRUE(map.ok()) << map.status().ToString();
  InAThreadThatBlocksBusErrors([&] {
    for (const int error : {EINVAL, ENOMEM}) {
      madvise_error = error;
      EXPECT_TRUE((*map)->MakeReadable(0, kBytes).ok());
      EXPECT_TRUE((*map)->StoreAgain(0, kBytes).ok());
    }
    ASSERT_EQ(::truncate(path_.c_str(), 4096), 0);
    EXPECT_TRUE((*map)->MakeReadable(0, 4096).ok());
    EXPECT_TRUE((*map)->MakeReadable(kBytes, 1).ok()) << "nothing was mapped there";
    const Status lost = (*map)->MakeReadable(4000, kBytes);
    EXPECT_EQ(lost.code(), Code::kIo);
    EXPECT_NE(lost.message().find(path_ + " ends at offset 4096"), std::string::npos)
        << lost.ToString();
    EXPECT_EQ((*map)->StoreAgain(0, kBytes).code(), Code::kIo);
    ASSERT_TRUE(fs_.Unlink(path_).ok());
    EXPECT_EQ((*map)->MakeReadable(0, 4096).code(), Code::kIo) << "no call can tell";
  });
  EXPECT_TRUE((*map)->MakeReadable(0, 4096).ok()) << "a load finds them, whatever has the path";
  EXPECT_EQ((*map)->MakeReadable(0, 8192).code(), Code::kIo);
}

// Otherwise a file without a date of birth would count as another file.
TEST_F(Interrupted, AFileThatCannotBeAskedAboutForWantOfMemoryIsNotAnotherFile) {
  armed = false;
  ASSERT_TRUE(WriteFile(fs_, path_, std::string(8192, 'a')).ok());
  const auto map = fs_.Map(path_, 8192, MapMode::kReadWrite);
  ASSERT_TRUE(map.ok()) << map.status().ToString();
  (*map)->LimitRoom(4096);
  statx_error = ENOMEM;
  EXPECT_EQ((*map)->GrowRoom(8192).code(), Code::kOutOfMemory);
  madvise_error = EINVAL;
  InAThreadThatBlocksBusErrors([&] {
    EXPECT_EQ((*map)->MakeReadable(0, 8192).code(), Code::kOutOfMemory);
  });
  statx_error = 0;
  EXPECT_TRUE((*map)->GrowRoom(8192).ok());
  EXPECT_TRUE((*map)->MakeReadable(0, 8192).ok());
}

TEST_F(Interrupted, TheMachineAnswers) {
  EXPECT_NE(ReadProcFile("/proc/meminfo").find("SwapTotal:"), std::string::npos);
  EXPECT_GE(Calls("read"), 2);
  EXPECT_NE(RandomU64(), RandomU64());
  EXPECT_EQ(Calls("getrandom"), 4);
  const uint64_t begin_ns = RealClock().NowNs();
  RealClock().SleepNs(20'000'000);
  EXPECT_GE(RealClock().NowNs() - begin_ns, 20'000'000u);
  EXPECT_EQ(Calls("clock_nanosleep"), 2);
}

}  // namespace
}  // namespace quire::io::interrupted_test
