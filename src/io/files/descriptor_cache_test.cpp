// Files that are only read, of which few are open at a time: on the real file system.
#include "io/files/descriptor_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/core/random.h"
#include "base/core/sanitizer.h"
#include "io/files/file_system.h"
#include "io/files/read_map.h"
#include "tests/support/resource_limit.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::io::descriptor_cache_test {
namespace {

constexpr rlim_t kLimit = 64;
constexpr int kFiles = 200;
// Such reads take a descriptor, whether the file is mapped or not.
constexpr size_t kLargeRead = ReadMap::kCopyBytesMax + 1;

size_t OpenDescriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    static_cast<void>(entry);
    ++count;
  }
  return count - 1;  // that of the directory
}

// Runs with files that are mapped, and with files that cannot be.
class DescriptorCacheTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!GetParam()) address_space_.emplace(RLIMIT_AS, test::kUnmappedAddressSpace);
  }
  std::string Path(int i) const { return directory_ / std::to_string(i); }
  static std::string BytesOf(int i) {
    return std::string(kLargeRead, static_cast<char>('a' + i % 26)) + std::to_string(i);
  }
  void Write(const std::string& path, const std::string& bytes) {
    auto file = PosixFileSystem().Open(path, FileOpenMode::kCreate);
    ASSERT_OK(file.status());
    ASSERT_OK((*file)->WriteAt(0, bytes));
  }
  std::unique_ptr<File> Open(const std::string& path,
                             FileOpenMode mode = FileOpenMode::kReadNamed) {
    auto file = PosixFileSystem().Open(path, mode);
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    return file.ok() ? std::move(*file) : nullptr;
  }
  void OpenMany(int count) {
    for (int i = 0; i < count; ++i) {
      Write(Path(i), BytesOf(i));
      files_.push_back(Open(Path(i)));
      ASSERT_NE(files_.back(), nullptr);
    }
  }
  // Returns the bytes of the file, or the error in angle brackets.
  static std::string ReadAll(const File& file, size_t size) {
    std::string bytes(size, '\0');
    const Status status = file.ReadAt(0, size, bytes.data());
    return status.ok() ? bytes : "<" + status.ToString() + ">";
  }
  bool ReadsRight(int i) const {
    return ReadAll(*files_[static_cast<size_t>(i)], BytesOf(i).size()) == BytesOf(i);
  }
  static void CloseAllIdle() {
    while (CloseIdleDescriptor()) {
    }
  }

  test::TempDirectory directory_;
  std::optional<test::ResourceLimit> address_space_;
  std::vector<std::unique_ptr<File>> files_;
};

INSTANTIATE_TEST_SUITE_P(Files, DescriptorCacheTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Mapped" : "Unmapped"; });

TEST_P(DescriptorCacheTest, AtMostHalfOfTheLimitStaysOpen) {
  const test::ResourceLimit limit(RLIMIT_NOFILE, kLimit);
  const size_t others = OpenDescriptors();
  OpenMany(kFiles);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kFiles; ++i) EXPECT_TRUE(ReadsRight(i)) << i;
    EXPECT_LE(OpenDescriptors(), others + kLimit / 2);
  }
  files_.clear();
  EXPECT_EQ(OpenDescriptors(), others);
}

TEST_P(DescriptorCacheTest, ManyThreadsReadManyFiles) {
  const test::ResourceLimit limit(RLIMIT_NOFILE, kLimit);
  OpenMany(kFiles);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      base::Random random(static_cast<uint64_t>(thread));
      for (int i = 0; i < 2000; ++i) {
        // Half of the reads are of few files, so that some stay open.
        const auto range = i % 2 == 0 ? uint64_t{8} : uint64_t{kFiles};
        if (!ReadsRight(static_cast<int>(random.Next() % range))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(DescriptorCacheTest, AFileThatIsReadOftenStaysOpen) {
  if (GetParam()) GTEST_SKIP() << "a mapping is read if the file was closed";
  const test::ResourceLimit limit(RLIMIT_NOFILE, kLimit);
  OpenMany(kFiles);
  EXPECT_TRUE(ReadsRight(0));
  ASSERT_OK(PosixFileSystem().Unlink(Path(0)));  // so that it cannot be opened again
  for (int i = 1; i < kFiles; ++i) {
    EXPECT_TRUE(ReadsRight(i)) << i;
    EXPECT_TRUE(ReadsRight(0)) << i;
  }
}

// A mapping shows the file that was opened. Without a mapping a read is an error, and never returns
// the bytes of the other file.
TEST_P(DescriptorCacheTest, NothingIsReadFromAFileThatTookThePlace) {
  OpenMany(1);
  CloseAllIdle();
  ASSERT_OK(ReplaceFile(PosixFileSystem(), Path(0), BytesOf(1)));
  if (GetParam()) {
    EXPECT_TRUE(ReadsRight(0));
    return;
  }
  char byte = 0;
  const Status status = files_[0]->ReadAt(0, 1, &byte);
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find(Path(0) + " was replaced"), std::string::npos)
      << status.ToString();
}

// Many file systems give the number of a removed file to the next one.
TEST_P(DescriptorCacheTest, AFileThatWasMadeAfterTheFirstWasRemovedIsAnother) {
  if (GetParam()) GTEST_SKIP() << "a mapping keeps the number taken";
  OpenMany(1);
  {
    const FileDescriptor probe = FileDescriptor::Open(Path(0), O_RDONLY | O_CLOEXEC);
    const auto identity = IdentityOf(probe.get(), Path(0));
    ASSERT_OK(identity.status());
    if (identity->born_s == 0) GTEST_SKIP() << "the file system does not record births";
  }
  CloseAllIdle();
  ASSERT_OK(PosixFileSystem().Unlink(Path(0)));
  Write(Path(0), BytesOf(1));
  char byte = 0;
  EXPECT_EQ(files_[0]->ReadAt(0, 1, &byte).code(), Code::kCorruption);
}

// kNotFound would be taken for an absent key.
TEST_P(DescriptorCacheTest, AFileThatLostItsNameIsCorruptionOrStillRead) {
  OpenMany(1);
  CloseAllIdle();
  ASSERT_OK(PosixFileSystem().Unlink(Path(0)));
  if (GetParam()) {
    EXPECT_TRUE(ReadsRight(0));
    const Result<uint64_t> size = files_[0]->Size();
    ASSERT_OK(size.status());
    EXPECT_EQ(*size, BytesOf(0).size());
    return;
  }
  EXPECT_EQ(files_[0]->Size().status().code(), Code::kCorruption);
  char byte = 0;
  const Status status = files_[0]->ReadAt(0, 1, &byte);
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find(Path(0) + " was removed"), std::string::npos)
      << status.ToString();
}

TEST_P(DescriptorCacheTest, AFileThatOthersMayRemoveStaysReadable) {
  Write(Path(0), BytesOf(0));
  files_.push_back(Open(Path(0), FileOpenMode::kReadImmutable));
  CloseAllIdle();
  ASSERT_OK(PosixFileSystem().Unlink(Path(0)));
  Write(Path(0), BytesOf(1));
  EXPECT_TRUE(ReadsRight(0));
}

TEST_P(DescriptorCacheTest, AReadGoesOnWhenTheProgramHasTakenAllDescriptors) {
  if (QUIRE_ADDRESS_SANITIZER) GTEST_SKIP() << "a sanitizer takes descriptors to look at types";
  const test::ResourceLimit limit(RLIMIT_NOFILE, kLimit);
  OpenMany(kFiles);
  std::vector<FileDescriptor> taken;
  do {
    taken.push_back(FileDescriptor::Duplicate(STDIN_FILENO));
  } while (taken.back().ok());
  for (int i = 0; i < kFiles; ++i) EXPECT_TRUE(ReadsRight(i)) << i;
  Write(directory_ / "another", "x");
}

TEST_P(DescriptorCacheTest, AForkedChildReadsWhileThreadsOfItsParentOpenFiles) {
  if (QUIRE_ADDRESS_SANITIZER) GTEST_SKIP() << "the sanitizer's allocator does not survive a fork";
  const test::ResourceLimit limit(RLIMIT_NOFILE, kLimit);
  OpenMany(kFiles);
  std::atomic<bool> over = false;
  std::thread reader([&] {
    for (int i = 0; !over.load(); i = (i + 1) % kFiles) static_cast<void>(ReadsRight(i));
  });
  int right = 0;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      auto file = PosixFileSystem().Open(Path(i), FileOpenMode::kReadNamed);
      ::_exit(file.ok() && ReadAll(**file, BytesOf(i).size()) == BytesOf(i) ? 0 : 1);
    }
    int status = 1;
    if (child > 0 && ::waitpid(child, &status, 0) == child && status == 0) ++right;
  }
  over = true;
  reader.join();
  EXPECT_EQ(right, 20);
}

}  // namespace
}  // namespace quire::io::descriptor_cache_test
