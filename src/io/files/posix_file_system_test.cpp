// Abilities and failures that only the real file system has.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/files/file_system.h"
#include "io/files/posix_error.h"
#include "io/files/posix_file.h"
#include "tests/support/temp_directory.h"

namespace quire::io::posix_file_system_test {
namespace {

using test::TempDirectory;

mode_t ModeOf(const std::string& path) {
  struct stat info;
  EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST(PosixFileSystem, FilesAndDirectoriesAreTheUsersAlone) {
  const TempDirectory directory;
  const mode_t mask = ::umask(0);
  EXPECT_TRUE(PosixFileSystem().MakeDirectory(directory / "d").ok());
  EXPECT_TRUE(PosixFileSystem().Open(directory / "f", FileOpenMode::kCreate).ok());
  EXPECT_TRUE(PosixFileSystem().Open(directory / "g", FileOpenMode::kReadWriteCreate).ok());
  EXPECT_TRUE(PosixFileSystem().Lock(directory / "L", "me").ok());
  ::umask(mask);
  EXPECT_EQ(ModeOf(directory / "d"), 0700u);
  EXPECT_EQ(ModeOf(directory / "f"), 0600u);
  EXPECT_EQ(ModeOf(directory / "g"), 0600u);
  EXPECT_EQ(ModeOf(directory / "L"), 0600u);
}

// On many clusters $SCRATCH is such a link.
TEST(PosixFileSystem, TheDirectoryAboveMayBeALink) {
  const TempDirectory directory;
  std::filesystem::create_directory(directory / "real");
  std::filesystem::create_symlink("real", directory / "scratch");
  FileSystem& fs = PosixFileSystem();
  EXPECT_TRUE(MakeDurableDirectory(fs, directory / "scratch/repository").ok());
  EXPECT_TRUE(ReplaceFile(fs, directory / "scratch/file", "bytes").ok());
  EXPECT_TRUE(fs.SyncDirectory(directory / "scratch").ok());
  EXPECT_TRUE(std::filesystem::exists(directory / "real/repository"));
}

TEST(PosixFileSystem, PlantedLinksAreNotFollowed) {
  const TempDirectory directory;
  std::filesystem::create_directory(directory / "elsewhere");
  { ASSERT_TRUE(PosixFileSystem().Open(directory / "target", FileOpenMode::kCreate).ok()); }
  std::filesystem::create_symlink(directory / "target", directory / "link");
  std::filesystem::create_symlink(directory / "missing", directory / "dangling");
  std::filesystem::create_symlink(directory / "elsewhere", directory / "dirlink");
  FileSystem& fs = PosixFileSystem();
  for (const FileOpenMode mode :
       {FileOpenMode::kRead, FileOpenMode::kReadImmutable, FileOpenMode::kReadNamed,
        FileOpenMode::kReadWrite, FileOpenMode::kCreate, FileOpenMode::kReadWriteCreate}) {
    EXPECT_EQ(fs.Open(directory / "link", mode).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(fs.Open(directory / "dangling", mode).status().code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(fs.Map(directory / "link", 1, MapMode::kRead).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(fs.Lock(directory / "link", "me").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(fs.MakeDirectory(directory / "dirlink").code(), Code::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(directory / "missing"));
  EXPECT_TRUE(*fs.Exists(directory / "dangling"));
}

// The kernel reports "not a directory" for a link in a directory's place.
TEST(PosixFileSystem, ALinkInTheDirectorysPlaceIsCalledALink) {
  const TempDirectory directory;
  std::filesystem::create_directory(directory / "elsewhere");
  std::filesystem::create_symlink(directory / "elsewhere", directory / "link");
  { ASSERT_TRUE(PosixFileSystem().Open(directory / "file", FileOpenMode::kCreate).ok()); }
  FileSystem& fs = PosixFileSystem();
  const std::string link = directory / "link";
  for (const Status& status :
       {fs.MakeDirectory(link), fs.CheckDirectory(link), fs.RemoveTree(link)}) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(status.message(), "cannot open the directory " + link + ": " + ErrnoText(ELOOP) +
                                    "; Quire follows no symbolic links; name the real path");
  }
  EXPECT_EQ(fs.MakeDirectory(directory / "file").message(),
            ErrnoStatus(ENOTDIR, "open the directory", directory / "file").message());
}

// As a database does with its manifest, whose new contents are in place by then.
TEST(PosixFileSystem, AnOpenDirectoryIsSyncedWithoutAnotherDescriptor) {
  const TempDirectory directory;
  FileSystem& fs = PosixFileSystem();
  const auto opened = fs.OpenForSync(directory.path());
  ASSERT_TRUE(opened.ok());
  rlimit limit;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {0, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status synced = (*opened)->Sync();
  const Status by_name = fs.SyncDirectory(directory.path());
  ::setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_TRUE(synced.ok()) << synced.ToString();
  EXPECT_EQ(by_name.code(), Code::kOutOfMemory);
}

TEST(PosixFileSystem, PlantedPipesAreRefusedAtOnce) {
  const TempDirectory directory;
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  const auto file = PosixFileSystem().Open(directory / "pipe", FileOpenMode::kReadWrite);
  EXPECT_EQ(file.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(file.status().message(), directory / "pipe" + " is not a regular file; remove it");
  EXPECT_FALSE(PosixFileSystem().Open(directory / "pipe", FileOpenMode::kRead).ok());
}

TEST(PosixFileSystem, DirectoriesThatAllUsersMayWriteAreRefused) {
  const TempDirectory directory;
  std::filesystem::create_directory(directory / "d");
  ASSERT_EQ(::chmod((directory / "d").c_str(), 0777), 0);
  const Status status = PosixFileSystem().MakeDirectory(directory / "d");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("chmod go-w " + directory / "d"), std::string::npos);
  ASSERT_EQ(::chmod((directory / "d").c_str(), 0755), 0);
  EXPECT_TRUE(PosixFileSystem().MakeDirectory(directory / "d").ok());
}

TEST(PosixFileSystem, ADirectoryOfAnotherUserIsRefusedWithTheOwner) {
  const TempDirectory directory;
  std::string other = directory / "d";
  std::string owner = "user 12345";
  if (::geteuid() == 0) {
    std::filesystem::create_directory(other);
    ASSERT_EQ(::chown(other.c_str(), 12345, 12345), 0);
  } else {
    other = "/usr";
    owner = "user root (0)";
  }
  const Status status = PosixFileSystem().MakeDirectory(other);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("belongs to " + owner), std::string::npos) << status.message();
}

TEST(PosixFileSystem, ErrorsSayWhatWhereWhyAndWhatToDo) {
  const TempDirectory directory;
  const Status status = PosixFileSystem().Open(directory / "no/f", FileOpenMode::kCreate).status();
  EXPECT_EQ(status.message(), "cannot open " + directory / "no/f" + ": No such file or directory");
  EXPECT_EQ(PosixFileSystem().MakeDirectory(directory / "no/d").ToString(),
            "not found: cannot make the directory " + directory / "no/d" +
                ": No such file or directory; its parent is absent: make it, or correct the path");
  const Status full = ErrnoStatus(ENOSPC, "write", "/a");
  EXPECT_EQ(full.ToString(),
            "no space: cannot write /a: No space left on device; make room on the device");
  EXPECT_EQ(ErrnoStatus(EDQUOT, "write", "/a").code(), Code::kNoSpace);
  EXPECT_EQ(ErrnoStatus(EACCES, "open", "/a").code(), Code::kIo);
  EXPECT_NE(ErrnoStatus(EACCES, "open", "/a").message().find("permissions"), std::string::npos);
  EXPECT_NE(ErrnoStatus(EROFS, "open", "/a").message().find("read-only"), std::string::npos);
  EXPECT_EQ(ErrnoStatus(ENOMEM, "map", "/a").code(), Code::kOutOfMemory);
  EXPECT_EQ(ErrnoStatus(EMFILE, "open", "/a").code(), Code::kOutOfMemory);
  EXPECT_EQ(ErrnoStatus(ENFILE, "open", "/a").code(), Code::kOutOfMemory);
  EXPECT_EQ(ErrnoStatus(EIO, "sync", "/a").code(), Code::kIo);
}

// While this object lives, the process can open `left` more descriptors.
class FewDescriptors {
 public:
  explicit FewDescriptors(size_t left) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    struct rlimit limit = before_;
    limit.rlim_cur = 256;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken_.push_back(fd);
    for (; left > 0; --left) GiveOne();
  }
  ~FewDescriptors() {
    while (!taken_.empty()) GiveOne();
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  void GiveOne() {
    ::close(taken_.back());
    taken_.pop_back();
  }

  struct rlimit before_;
  std::vector<int> taken_;
};

// With any number of descriptors left, the file is replaced as a whole, or nothing has changed.
TEST(PosixFileSystem, ReplacingAFileWithFewDescriptorsIsAllOrNothing) {
  const TempDirectory directory;
  FileSystem& fs = PosixFileSystem();
  ASSERT_TRUE(ReplaceFile(fs, directory / "f", "old").ok());
  for (size_t left = 0; left < 3; ++left) {
    Status replaced;
    {
      const FewDescriptors few(left);
      replaced = ReplaceFile(fs, directory / "f", "new");
    }
    const Result<std::string> bytes = ReadFile(fs, directory / "f", 10);
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ(*bytes, left == 0 ? "old" : "new");
    EXPECT_EQ(replaced.code(), left == 0 ? Code::kOutOfMemory : Code::kOk) << replaced.ToString();
  }
}

// The mapping alone keeps the file: a program has many mapped files, and few descriptors.
TEST(PosixFileSystem, AMappedFileKeepsNoDescriptor) {
  const TempDirectory directory;
  FileSystem& fs = PosixFileSystem();
  ASSERT_TRUE(ReplaceFile(fs, directory / "f", std::string(8192, 'a')).ok());
  std::vector<std::unique_ptr<MappedFile>> maps;
  {
    const FewDescriptors few(4);  // a sanitizer needs two for itself
    for (int i = 0; i < 8; ++i) {
      auto map = fs.Map(directory / "f", 8192, MapMode::kReadWrite);
      ASSERT_TRUE(map.ok()) << map.status().ToString();
      maps.push_back(std::move(*map));
    }
  }
  maps[0]->data()[0] = 'b';
  EXPECT_TRUE(maps[0]->Sync(0, 8192).ok());
  EXPECT_EQ(ReadFile(fs, directory / "f", 8192).value()[0], 'b');
}

TEST(PosixFileSystem, AFullDeviceIsNoSpaceAndItsFailedSyncIsNot) {
  // /dev/full is no regular file, so a limit on file size stands in for the real thing.
  const TempDirectory directory;
  auto file = PosixFileSystem().Open(directory / "f", FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok());
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit limit = before;
  limit.rlim_cur = 10000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  // The first 10,000 bytes fit: a short write, continued, then refused.
  const Status status = (*file)->WriteAt(0, std::string(20000, 'x'));
  const Status allocated = (*file)->Allocate(20000);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_EQ(status.message(), "cannot write at offset 10000 of " + directory / "f" +
                                  ": File too large; raise the limit on file size (ulimit -f)");
  EXPECT_FALSE(allocated.ok());
  EXPECT_EQ(*(*file)->Size(), 10000u);
  EXPECT_TRUE((*file)->WriteAt(0, std::string(20000, 'x')).ok());
}

TEST(PosixFileSystem, AllocateTakesRoom) {
  const TempDirectory directory;
  auto file = PosixFileSystem().Open(directory / "f", FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Allocate(1 << 20).ok());
  struct stat info;
  ASSERT_EQ(::stat((directory / "f").c_str(), &info), 0);
  EXPECT_GE(info.st_blocks * 512, 1 << 20);
}

TEST(PosixFileSystem, AllocatingByWritingTakesRoomAndKeepsContents) {
  const TempDirectory directory;
  const std::string path = directory / "f";
  PosixFile file(FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)), path);
  ASSERT_TRUE(file.WriteAt(0, "front").ok());
  ASSERT_TRUE(file.WriteAt(1'500'000, "behind a hole").ok());
  ASSERT_TRUE(file.AllocateByWriting(0, 3'000'000).ok());
  struct stat info;
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_GE(info.st_blocks * 512, 3'000'000);
  std::string expected(3'000'000, '\0');
  expected.replace(0, 5, "front").replace(1'500'000, 13, "behind a hole");
  EXPECT_EQ(*ReadFile(PosixFileSystem(), path, 3'000'000), expected);
  ASSERT_TRUE(file.AllocateByWriting(0, 10).ok());
  EXPECT_EQ(*file.Size(), 3'000'000u);
}

// Other threads may store to the rest of the file at that moment.
TEST(PosixFileSystem, AllocatingARangeTouchesNothingElse) {
  const TempDirectory directory;
  const std::string path = directory / "f";
  PosixFile file(FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)), path);
  ASSERT_TRUE(file.Truncate(4 << 20).ok());
  ASSERT_TRUE(file.AllocateByWriting(1 << 20, 1 << 20).ok());
  ASSERT_TRUE(file.AllocateRange(2 << 20, 1 << 20).ok());
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(::lseek(fd, 0, SEEK_DATA), 1 << 20) << "what lies before it is still a hole";
  ::close(fd);
  struct stat info;
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 3 << 20);
  EXPECT_GE(info.st_blocks * 512, 2 << 20);
  EXPECT_EQ(info.st_size, 4 << 20);
}

TEST(PosixFileSystem, AMappingSetsRoomAsideInItsOwnFileAlone) {
  const TempDirectory directory;
  const std::string path = directory / "f";
  const auto allocated = [](const std::string& file) {
    struct stat info;
    return ::stat(file.c_str(), &info) == 0 ? info.st_blocks * 512 : -1;
  };
  auto file = PosixFileSystem().Open(path, FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok() && (*file)->Allocate(64 << 10).ok() && (*file)->Truncate(4 << 20).ok());
  auto map = PosixFileSystem().Map(path, 4 << 20, MapMode::kReadWrite);
  ASSERT_TRUE(map.ok());
  (*map)->LimitRoom(64 << 10);
  EXPECT_TRUE((*map)->GrowRoom(1 << 20).ok());
  EXPECT_TRUE((*map)->GrowRoom(10).ok());
  EXPECT_EQ((*map)->room(), uint64_t{1} << 20);
  EXPECT_GE(allocated(path), 1 << 20);
  EXPECT_LT(allocated(path), 2 << 20);
  std::filesystem::rename(path, path + ".old");
  EXPECT_EQ((*map)->GrowRoom(2 << 20).code(), Code::kNotFound);
  ASSERT_TRUE(WriteFile(PosixFileSystem(), path, "another file").ok());
  EXPECT_EQ((*map)->GrowRoom(2 << 20).code(), Code::kCorruption);
  EXPECT_EQ((*map)->room(), uint64_t{1} << 20);
  EXPECT_LT(allocated(path), 1 << 20);
}

// A piece of the file in memory that lies across the end of the room takes blocks behind it. That
// may fail in GrowRoom, and not in a later store. kill.room tests full devices.
TEST(PosixFileSystem, TheLastPageOfTheRoomIsTakenWithTheRoom) {
  constexpr uint64_t kRoom = (1 << 20) + 100;
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE
  const TempDirectory directory;
  const std::string path = directory / "f";
  auto file = PosixFileSystem().Open(path, FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok() && (*file)->Allocate(64 << 10).ok() && (*file)->Truncate(4 << 20).ok());
  auto map = PosixFileSystem().Map(path, 4 << 20, MapMode::kReadWrite);
  ASSERT_TRUE(map.ok());
  if ((*map)->in_memory()) GTEST_SKIP() << "its pages are the device";
  (*map)->LimitRoom(64 << 10);
  unsigned char in_memory = 0;
  const auto look = [&] { return ::mincore((*map)->data() + (1 << 20), 1, &in_memory) == 0; };
  ASSERT_TRUE(look());
  EXPECT_EQ(in_memory & 1, 0);
  EXPECT_TRUE((*map)->GrowRoom(kRoom).ok());
  ASSERT_TRUE(look());
  if (::madvise((*map)->data(), 1, kPopulateWrite) != 0) GTEST_SKIP() << "needs Linux 5.14";
  EXPECT_EQ(in_memory & 1, 1);
  EXPECT_EQ((*map)->room(), kRoom);
}

TEST(PosixFileSystem, ALockEndsWithItsProcess) {
  const TempDirectory directory;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lock = PosixFileSystem().Lock(directory / "LOCK", "the child");
    const char byte = lock.ok() ? 'y' : 'n';
    if (::write(ready[1], &byte, 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  const auto busy = PosixFileSystem().Lock(directory / "LOCK", "the parent");
  EXPECT_EQ(busy.status().code(), Code::kBusy);
  EXPECT_NE(busy.status().message().find("locked by the child;"), std::string::npos);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(PosixFileSystem().Lock(directory / "LOCK", "the parent").ok());
  ::close(ready[0]);
  ::close(ready[1]);
}

// Takes both kinds of lock, and waits to be killed; so does a forked child, which reports itself.
[[noreturn]] void LockAndFork(const TempDirectory& directory, int report) {
  const auto lock = PosixFileSystem().Lock(directory / "LOCK", "the writer");
  const auto shared = PosixFileSystem().LockShared(directory / "SHARED");
  if (!lock.ok() || !shared.ok()) ::_exit(1);
  if (::fork() == 0) {  // after the handlers of fork
    const pid_t child = ::getpid();
    if (::write(report, &child, sizeof child) != sizeof child) ::_exit(1);
  }
  while (true) ::pause();
}

TEST(PosixFileSystem, AForkedChildKeepsNoLockOfItsDeadParent) {
  const TempDirectory directory;
  ASSERT_TRUE(WriteFile(PosixFileSystem(), directory / "SHARED", "x").ok());
  int report[2];
  ASSERT_EQ(::pipe(report), 0);
  const pid_t writer = ::fork();
  if (writer == 0) LockAndFork(directory, report[1]);
  ::close(report[1]);
  pid_t child = 0;
  ASSERT_EQ(::read(report[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  EXPECT_EQ(PosixFileSystem().Lock(directory / "LOCK", "me").status().code(), Code::kBusy);
  ASSERT_EQ(::kill(writer, SIGKILL), 0);
  ASSERT_EQ(::waitpid(writer, nullptr, 0), writer);
  ASSERT_EQ(::kill(child, 0), 0) << "the child lives on";
  EXPECT_TRUE(PosixFileSystem().Lock(directory / "LOCK", "the next writer").ok());
  EXPECT_TRUE(PosixFileSystem().Lock(directory / "SHARED", "the next writer").ok());
  ::kill(child, SIGKILL);
  ::close(report[0]);
}

TEST(PosixFileSystem, AChildThatEndsLeavesItsParentsLock) {
  const TempDirectory directory;
  auto lock = PosixFileSystem().Lock(directory / "LOCK", "me");
  ASSERT_TRUE(lock.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    lock->reset();
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(PosixFileSystem().Lock(directory / "LOCK", "you").status().code(), Code::kBusy);
  lock->reset();
  EXPECT_TRUE(PosixFileSystem().Lock(directory / "LOCK", "you").ok());
}

TEST(PosixFileSystem, ALockOutlivesOtherDescriptorsOfItsFile) {
  // POSIX record locks would be lost here; open-file-description locks are not.
  const TempDirectory directory;
  const auto lock = PosixFileSystem().Lock(directory / "LOCK", "me");
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(*ReadFile(PosixFileSystem(), directory / "LOCK", 100), "me");
  EXPECT_EQ(PosixFileSystem().Lock(directory / "LOCK", "you").status().code(), Code::kBusy);
}

TEST(PosixFileSystem, StoresToAMappingSurviveAKill) {
  const TempDirectory directory;
  auto file = PosixFileSystem().Open(directory / "f", FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok() && (*file)->Allocate(4096).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    auto map = PosixFileSystem().Map(directory / "f", 4096, MapMode::kReadWrite);
    if (map.ok()) std::memcpy((*map)->data() + 7, "survives", 8);
    ::raise(SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  char bytes[8];
  ASSERT_TRUE((*file)->ReadAt(7, 8, bytes).ok());
  EXPECT_EQ(Slice(bytes, 8), "survives");
}

TEST(PosixFileSystem, StoringAgainLosesNoStoreOfAnotherThread) {
  constexpr uint64_t kBytes = 64 << 10;
  constexpr int kStores = 20'000;
  const TempDirectory directory;
  ASSERT_TRUE(ReplaceFile(PosixFileSystem(), directory / "f", std::string(kBytes, 'a')).ok());
  const auto map = PosixFileSystem().Map(directory / "f", kBytes, MapMode::kReadWrite);
  ASSERT_TRUE(map.ok());
  std::thread other([&] {
    for (int i = 1; i <= kStores; ++i) {
      for (uint64_t at = 0; at < kBytes; at += 4096) {
        const std::atomic_ref<char> byte((*map)->data()[at]);
        byte.store(static_cast<char>(i), std::memory_order_relaxed);
        EXPECT_EQ(byte.load(std::memory_order_relaxed), static_cast<char>(i));
      }
    }
  });
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE((*map)->StoreAgain(0, kBytes).ok());
  other.join();
  EXPECT_EQ((*map)->data()[1], 'a');
}

// Returns how many KiB of this process's mapping at `address` are not written yet; -1: unknown.
int64_t DirtyOf(const void* address) {
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<uintptr_t>(address) << '-';
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  while (std::getline(maps, line) && !line.starts_with(begin.str())) {
  }
  int64_t dirty = -1;
  while (std::getline(maps, line) && !line.starts_with("VmFlags")) {
    if (line.starts_with("Private_Dirty:")) dirty = std::strtoll(line.c_str() + 14, nullptr, 10);
  }
  return dirty;
}

TEST(PosixFileSystem, StoringAgainHasPagesWrittenAgain) {
  const TempDirectory directory;
  ASSERT_TRUE(ReplaceFile(PosixFileSystem(), directory / "f", std::string(64 << 10, 'a')).ok());
  const auto map = PosixFileSystem().Map(directory / "f", 64 << 10, MapMode::kReadWrite);
  ASSERT_TRUE(map.ok());
  std::memset((*map)->data(), 'b', 64 << 10);
  const int64_t stored = DirtyOf((*map)->data());
  ASSERT_TRUE((*map)->Sync(0, 64 << 10).ok());
  if (stored != 64 || DirtyOf((*map)->data()) != 0) GTEST_SKIP() << "the system does not tell";
  EXPECT_TRUE((*map)->StoreAgain(10'000, 12'288).ok());
  EXPECT_GE(DirtyOf((*map)->data()), 16);
}

// A store to a page that is gone would end the program.
TEST(PosixFileSystem, PagesThatAreGoneAreNotStoredToAgain) {
  const TempDirectory directory;
  const std::string path = directory / "f";
  ASSERT_TRUE(ReplaceFile(PosixFileSystem(), path, std::string(64 << 10, 'a')).ok());
  const auto map = PosixFileSystem().Map(path, 64 << 10, MapMode::kReadWrite);
  ASSERT_TRUE(map.ok());
  constexpr int kPopulateWrite = 23;
  if (::madvise((*map)->data(), 4096, kPopulateWrite) != 0) {
    GTEST_SKIP() << "the kernel cannot make pages present";
  }
  std::filesystem::resize_file(path, 4096);
  EXPECT_TRUE((*map)->StoreAgain(0, 4096).ok());
  EXPECT_EQ((*map)->StoreAgain(0, 64 << 10).code(), Code::kIo);
}

// A load from a page that is gone would end the program.
TEST(PosixFileSystem, PagesThatAreGoneAreNotReadable) {
  constexpr uint64_t kBytes = 64 << 10;
  const TempDirectory directory;
  const std::string path = directory / "f";
  ASSERT_TRUE(ReplaceFile(PosixFileSystem(), path, std::string(kBytes, 'a')).ok());
  const auto map = PosixFileSystem().Map(path, kBytes, MapMode::kRead);
  ASSERT_TRUE(map.ok());
  std::string copy(kBytes, '\0');
  EXPECT_TRUE((*map)->MakeReadable(0, kBytes).ok());
  EXPECT_TRUE((*map)->TouchReadable(0, kBytes).ok());
  EXPECT_TRUE((*map)->TryCopy(0, kBytes, copy.data()));
  EXPECT_EQ(copy, std::string(kBytes, 'a'));
  EXPECT_FALSE((*map)->TryCopy(1, kBytes, copy.data())) << "more than was mapped";
  std::filesystem::resize_file(path, 4096);
  const auto expect_lost = [&] {
    EXPECT_TRUE((*map)->MakeReadable(100, 3996).ok());
    EXPECT_TRUE((*map)->TouchReadable(100, 3996).ok());
    EXPECT_EQ((*map)->MakeReadable(4095, 2).code(), Code::kIo);
    EXPECT_FALSE((*map)->TryCopy(4095, 2, copy.data()));
    const Status lost = (*map)->TouchReadable(0, UINT64_MAX);
    EXPECT_EQ(lost.code(), Code::kIo);
    EXPECT_NE(lost.message().find(path), std::string::npos) << lost.ToString();
  };
  expect_lost();
  std::thread([&] {
    sigset_t bus_error;
    sigemptyset(&bus_error);
    sigaddset(&bus_error, SIGBUS);
    ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &bus_error, nullptr), 0);
    expect_lost();
  }).join();
}

}  // namespace
}  // namespace quire::io::posix_file_system_test
