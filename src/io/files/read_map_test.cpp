// Reads of files that are open as kReadImmutable, on the real file system.
#include "io/files/read_map.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/core/random.h"
#include "io/files/file_system.h"
#include "io/files/posix_file.h"
#include "tests/support/temp_directory.h"

namespace quire::io::read_map_test {
namespace {

// A clock that advances by `step_ns` at each reading.
class SteppingClock : public Clock {
 public:
  uint64_t NowNs() override { return now_ns_ += step_ns; }
  void SleepNs(uint64_t ns) override { now_ns_ += ns; }
  uint64_t step_ns = 0;

 private:
  uint64_t now_ns_ = 0;
};

std::string SomeBytes(size_t size) {
  base::Random random(size);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random.Next());
  return bytes;
}

class ReadMapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    page_bytes_ = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    Write(SomeBytes(5 * page_bytes_ + 123));
    if (TryMap() == nullptr) GTEST_SKIP() << path() << " lies where files are not mapped";
  }
  void Write(std::string bytes) {
    bytes_ = std::move(bytes);
    auto file = PosixFileSystem().Open(path(), FileOpenMode::kReadWriteCreate);
    ASSERT_TRUE(file.ok() && (*file)->Truncate(0).ok() && (*file)->WriteAt(0, bytes_).ok());
  }
  std::unique_ptr<ReadMap> TryMap() {
    const FileDescriptor fd(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
    return ReadMap::TryMap(fd.get(), clock_);
  }
  std::unique_ptr<File> Open() {
    auto file = PosixFileSystem().Open(path(), FileOpenMode::kReadImmutable);
    EXPECT_TRUE(file.ok());
    return std::move(*file);
  }
  std::string path() const { return directory_ / "f"; }
  // Copies the first byte of pages out of the mapping. Returns how many copies succeeded.
  int CopyPages(ReadMap* map, int count) {
    int copied = 0;
    char to = 0;
    for (int i = 0; i < count; ++i) {
      copied += map->TryCopy(static_cast<size_t>(i % 5) * page_bytes_, 1, &to) ? 1 : 0;
    }
    return copied;
  }

  test::TempDirectory directory_;
  SteppingClock clock_;
  size_t page_bytes_ = 0;
  std::string bytes_;
};

TEST_F(ReadMapTest, CopiesWhatStandsInTheFileAtEveryBorder) {
  const auto map = TryMap();
  const auto file = Open();
  for (size_t border = 0; border <= 5 * page_bytes_; border += page_bytes_) {
    for (const size_t before : {size_t{0}, size_t{1}, size_t{77}}) {
      if (before > border) continue;
      for (const size_t size : {size_t{0}, size_t{1}, size_t{78}, size_t{123}}) {
        const std::string expected = bytes_.substr(border - before, size);
        std::string to(size, '\0');
        EXPECT_TRUE(map->TryCopy(border - before, size, to.data()));
        EXPECT_EQ(to, expected);
        to.assign(size, '\0');
        EXPECT_TRUE(file->ReadAt(border - before, size, to.data()).ok());
        EXPECT_EQ(to, expected);
      }
    }
  }
}

TEST_F(ReadMapTest, ReadsBeyondTheFileAreCorruption) {
  const auto map = TryMap();
  const auto file = Open();
  const uint64_t end = bytes_.size();
  std::string to(page_bytes_, '\0');
  EXPECT_FALSE(map->TryCopy(end - 1, 2, to.data()));
  EXPECT_FALSE(map->TryCopy(end + 1, 0, to.data()));
  EXPECT_FALSE(map->TryCopy(~uint64_t{0} - 1, 4, to.data()));
  const Status status = file->ReadAt(end - 1, 2, to.data());
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_EQ(status.message(), path() + " ends at offset " + std::to_string(end) +
                                  "; 2 bytes at " + std::to_string(end - 1) + " were expected");
}

TEST_F(ReadMapTest, LargeReadsAreLeftToPread) {
  Write(SomeBytes(ReadMap::kCopyBytesMax + 100));
  const auto map = TryMap();
  std::string to(ReadMap::kCopyBytesMax + 1, '\0');
  EXPECT_FALSE(map->TryCopy(3, to.size(), to.data()));
  EXPECT_TRUE(Open()->ReadAt(3, to.size(), to.data()).ok());
  EXPECT_EQ(to, bytes_.substr(3, to.size()));
  EXPECT_TRUE(map->TryCopy(3, to.size() - 1, to.data()));
}

TEST_F(ReadMapTest, AFileThatIsCutShortIsCorruptionAndTheProgramLives) {
  const auto file = Open();
  ASSERT_EQ(::truncate(path().c_str(), static_cast<off_t>(2 * page_bytes_)), 0);
  std::string to(100, '\0');
  for (int i = 0; i < 3; ++i) {
    const Status status = file->ReadAt(2 * page_bytes_ - 50, 100, to.data());
    EXPECT_EQ(status.code(), Code::kCorruption);
    EXPECT_EQ(status.message(), path() + " ends at offset " + std::to_string(2 * page_bytes_) +
                                    "; 100 bytes at " + std::to_string(2 * page_bytes_ - 50) +
                                    " were expected");
    EXPECT_TRUE(file->ReadAt(2 * page_bytes_ - 100, 100, to.data()).ok());
    EXPECT_EQ(to, bytes_.substr(2 * page_bytes_ - 100, 100));
  }
}

TEST_F(ReadMapTest, AThreadThatBlocksTheSignalIsLeftToPreadAndLives) {
  const auto map = TryMap();
  const auto file = Open();
  std::thread blocked([&] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGBUS);
    ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &set, nullptr), 0);
    std::string to(100, '\0');
    EXPECT_FALSE(map->TryCopy(7, to.size(), to.data()));
    EXPECT_TRUE(file->ReadAt(7, to.size(), to.data()).ok());
    EXPECT_EQ(to, bytes_.substr(7, to.size()));
    ASSERT_EQ(::truncate(path().c_str(), static_cast<off_t>(page_bytes_)), 0);
    EXPECT_EQ(file->ReadAt(2 * page_bytes_, 1, to.data()).code(), Code::kCorruption);
  });
  blocked.join();
}

TEST_F(ReadMapTest, ManyThreadsReadWhileTheFileIsCutShort) {
  const auto file = Open();
  std::atomic<int> ready = 0;
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      base::Random random(static_cast<uint64_t>(thread));
      std::string to(100, '\0');
      for (int i = 0; i < 4000; ++i) {
        // Not at the page's end: if the cut falls into a read, the read may return zeros at its
        // end.
        const uint64_t offset = random.Next() % 5 * page_bytes_ + random.Next() % 1000;
        const Status status = file->ReadAt(offset, to.size(), to.data());
        if (status.ok() ? to == bytes_.substr(offset, to.size())
                        : status.code() == Code::kCorruption) {
          ++right;
        }
        if (i == 1000) ++ready;
      }
    });
  }
  while (ready.load() < 4) std::this_thread::yield();
  EXPECT_EQ(::truncate(path().c_str(), static_cast<off_t>(page_bytes_)), 0);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), 4 * 4000);
}

TEST_F(ReadMapTest, ACopyThatWaitedLeavesTheNextReadsToPread) {
  const auto map = TryMap();
  EXPECT_EQ(CopyPages(map.get(), 1000), 1000);
  clock_.step_ns = ReadMap::kDeviceNs + 1;
  int before = 0;
  while (CopyPages(map.get(), 1) == 1) ASSERT_LT(++before, 1000);
  EXPECT_GT(before, 0);
  clock_.step_ns = 0;
  EXPECT_EQ(CopyPages(map.get(), ReadMap::kReadsLeftToPread - 1), 0);
  EXPECT_EQ(CopyPages(map.get(), 1000), 1000);
}

TEST_F(ReadMapTest, ACopyThatFailedLeavesTheNextReadsToPread) {
  const auto map = TryMap();
  ASSERT_EQ(::truncate(path().c_str(), static_cast<off_t>(page_bytes_)), 0);
  char to = 0;
  EXPECT_FALSE(map->TryCopy(page_bytes_, 1, &to));
  for (int i = 0; i < ReadMap::kReadsLeftToPread; ++i) EXPECT_FALSE(map->TryCopy(0, 1, &to));
  EXPECT_TRUE(map->TryCopy(0, 1, &to));
  EXPECT_EQ(to, bytes_[0]);
}

TEST_F(ReadMapTest, TheMappingGoesWithTheFile) {
  const auto mapped = [this] {
    std::ifstream maps("/proc/self/maps");
    std::stringstream text;
    text << maps.rdbuf();
    return text.str().find(std::filesystem::canonical(path())) != std::string::npos;
  };
  {
    const auto file = Open();
    EXPECT_TRUE(mapped());
  }
  EXPECT_FALSE(mapped());
}

TEST_F(ReadMapTest, UnderALimitOnAddressSpaceNothingIsMapped) {
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  struct rlimit limit = before;
  limit.rlim_cur = uint64_t{1} << 46;
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  const auto map = TryMap();
  const auto file = Open();
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(map, nullptr);
  std::string to(100, '\0');
  EXPECT_TRUE(file->ReadAt(7, to.size(), to.data()).ok());
  EXPECT_EQ(to, bytes_.substr(7, to.size()));
}

TEST(ReadMap, FilesThatAreNotOnALocalDeviceAreReadAllTheSame) {
  for (const uint32_t network : {0x00006969u, 0x0BD00BD0u, 0x47504653u, 0x19830326u, 0x65735546u,
                                 0x00C36400u, 0x00000000u}) {
    EXPECT_FALSE(ReadMap::SuitsFileSystem(network)) << std::hex << network;
  }
  EXPECT_TRUE(ReadMap::SuitsFileSystem(0xEF53));
  // /proc stands in for them: its files cannot be mapped.
  auto file = PosixFileSystem().Open("/proc/self/cmdline", FileOpenMode::kReadImmutable);
  ASSERT_TRUE(file.ok());
  char first = 0;
  EXPECT_TRUE((*file)->ReadAt(0, 1, &first).ok());
  EXPECT_NE(first, '\0');
}

TEST(ReadMap, AnEmptyFileIsNotMapped) {
  const test::TempDirectory directory;
  ASSERT_TRUE(PosixFileSystem().Open(directory / "f", FileOpenMode::kCreate).ok());
  auto file = PosixFileSystem().Open(directory / "f", FileOpenMode::kReadImmutable);
  ASSERT_TRUE(file.ok());
  char to = 'x';
  EXPECT_TRUE((*file)->ReadAt(0, 0, &to).ok());
  EXPECT_EQ((*file)->ReadAt(0, 1, &to).code(), Code::kCorruption);
  EXPECT_EQ((*file)->WriteAt(0, "x").code(), Code::kIo);
}

}  // namespace
}  // namespace quire::io::read_map_test
