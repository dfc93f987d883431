// The contract that the real and the simulated file system share, tested on both.
#include "io/files/file_system.h"
#include "io/files/posix_error.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "io/files/file_system_type.h"
#include "io/paths/forwarding.h"
#include "io/sim/sim_file_system.h"
#include "tests/support/temp_directory.h"

namespace quire::io::file_system_test {
namespace {

using test::TempDirectory;

struct PosixSubject {
  TempDirectory directory;
  FileSystem& fs = PosixFileSystem();
  std::string root = directory.path();
};

struct SimSubject {
  std::unique_ptr<SimFileSystem> sim = NewSimFileSystem();
  FileSystem& fs = *sim;
  std::string root = "/root";
  SimSubject() { EXPECT_TRUE(fs.MakeDirectory(root).ok()); }
};

struct FaultSubject {
  std::unique_ptr<SimFileSystem> sim = NewSimFileSystem();
  std::unique_ptr<FaultFileSystem> fault = NewFaultFileSystem(*sim);
  FileSystem& fs = *fault;
  std::string root = "/root";
  FaultSubject() { EXPECT_TRUE(fs.MakeDirectory(root).ok()); }
};

template <typename Subject>
class FileSystemTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return subject_.root + "/" + name; }
  FileSystem& fs() { return subject_.fs; }

  std::unique_ptr<File> Open(const std::string& name, FileOpenMode mode) {
    auto file = fs().Open(Path(name), mode);
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    return file.ok() ? std::move(file).value() : nullptr;
  }
  void Write(const std::string& name, Slice bytes) {
    auto file = Open(name, FileOpenMode::kReadWriteCreate);
    EXPECT_TRUE(file->Truncate(0).ok());
    EXPECT_TRUE(file->WriteAt(0, bytes).ok());
  }
  std::string Contents(const std::string& name) {
    auto bytes = ReadFile(fs(), Path(name), 1 << 20);
    return bytes.ok() ? *bytes : bytes.status().ToString();
  }

  Subject subject_;
};

using Subjects = ::testing::Types<PosixSubject, SimSubject, FaultSubject>;
TYPED_TEST_SUITE(FileSystemTest, Subjects);

TYPED_TEST(FileSystemTest, ALinkedFileLivesAsLongAsANameOfItDoes) {
  this->Write("first", "contents");
  ASSERT_TRUE(this->fs().MakeDirectory(this->Path("d")).ok());
  ASSERT_TRUE(this->fs().Link(this->Path("first"), this->Path("d/second")).ok());
  EXPECT_FALSE(this->fs().Link(this->Path("first"), this->Path("d/second")).ok());
  EXPECT_EQ(this->fs().Link(this->Path("none"), this->Path("third")).code(), Code::kNotFound);
  ASSERT_TRUE(this->fs().Unlink(this->Path("first")).ok());
  EXPECT_EQ(this->Contents("d/second"), "contents");
}

TYPED_TEST(FileSystemTest, ReadsBackWhatItWrote) {
  auto file = this->Open("f", FileOpenMode::kCreate);
  EXPECT_TRUE(file->WriteAt(0, "hello world").ok());
  EXPECT_TRUE(file->WriteAt(6, "quire").ok());
  EXPECT_TRUE(file->WriteAt(20, Slice("\0x", 2)).ok());
  EXPECT_EQ(*file->Size(), 22u);
  char bytes[22];
  EXPECT_TRUE(file->ReadAt(0, sizeof bytes, bytes).ok());
  EXPECT_EQ(Slice(bytes, 22), Slice("hello quire\0\0\0\0\0\0\0\0\0\0x", 22));
  EXPECT_TRUE(file->ReadAt(6, 5, bytes).ok());
  EXPECT_EQ(Slice(bytes, 5), "quire");
  EXPECT_TRUE(file->Sync().ok());
  EXPECT_EQ(file->path(), this->Path("f"));
}

TYPED_TEST(FileSystemTest, WriteBackThatBeganChangesNothingAndReachesPastTheEndWithoutHarm) {
  auto file = this->Open("f", FileOpenMode::kCreate);
  const std::string bytes(10'000, 'q');
  ASSERT_TRUE(file->WriteAt(0, bytes).ok());
  file->StartWriteBack(4096, 4096);
  file->StartWriteBack(8192, 1 << 20);
  file->StartWriteBack(1 << 20, 1);
  ASSERT_TRUE(file->WriteAt(5000, "r").ok());
  EXPECT_TRUE(file->Sync().ok());
  EXPECT_EQ(this->Contents("f"), std::string(5000, 'q') + "r" + std::string(4999, 'q'));
}

TYPED_TEST(FileSystemTest, ReadingPastTheEndIsCorruptionThatNamesThePlace) {
  this->Write("f", "abc");
  for (const FileOpenMode mode :
       {FileOpenMode::kRead, FileOpenMode::kReadImmutable, FileOpenMode::kReadNamed}) {
    auto file = this->Open("f", mode);
    char bytes[8];
    const Status status = file->ReadAt(1, 4, bytes);
    EXPECT_EQ(status.code(), Code::kCorruption);
    EXPECT_EQ(status.message(),
              this->Path("f") + " ends at offset 3; 4 bytes at 1 were expected");
    EXPECT_EQ(file->ReadAt(10, 1, bytes).message(),
              this->Path("f") + " ends at offset 3; 1 bytes at 10 were expected");
    EXPECT_TRUE(file->ReadAt(3, 0, bytes).ok());
    EXPECT_TRUE(file->ReadAt(1, 2, bytes).ok());
    EXPECT_EQ(Slice(bytes, 2), "bc");
  }
}

TYPED_TEST(FileSystemTest, OpenModesSayWhatMustExist) {
  for (const FileOpenMode mode : {FileOpenMode::kRead, FileOpenMode::kReadImmutable,
                                  FileOpenMode::kReadNamed, FileOpenMode::kReadWrite}) {
    EXPECT_EQ(this->fs().Open(this->Path("f"), mode).status().code(), Code::kNotFound);
  }
  EXPECT_TRUE(this->fs().Open(this->Path("f"), FileOpenMode::kReadWriteCreate).ok());
  EXPECT_TRUE(this->fs().Open(this->Path("f"), FileOpenMode::kReadWriteCreate).ok());
  EXPECT_EQ(this->fs().Open(this->Path("f"), FileOpenMode::kCreate).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(this->fs().Open(this->Path("no/f"), FileOpenMode::kCreate).status().code(),
            Code::kNotFound);
  EXPECT_EQ(this->fs().Open(this->Path("f/g"), FileOpenMode::kCreate).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(this->fs().Open(this->subject_.root, FileOpenMode::kReadWrite).status().code(),
            Code::kInvalidArgument);
}

TYPED_TEST(FileSystemTest, AReadOnlyFileRefusesWrites) {
  this->Write("f", "abc");
  for (const FileOpenMode mode :
       {FileOpenMode::kRead, FileOpenMode::kReadImmutable, FileOpenMode::kReadNamed}) {
    EXPECT_EQ(this->Open("f", mode)->WriteAt(0, "x").code(), Code::kIo);
  }
  EXPECT_EQ(this->Contents("f"), "abc");
}

TYPED_TEST(FileSystemTest, AllocateGrowsWithZerosAndKeepsContents) {
  auto file = this->Open("f", FileOpenMode::kCreate);
  EXPECT_TRUE(file->WriteAt(0, "abc").ok());
  EXPECT_TRUE(file->Allocate(10000).ok());
  EXPECT_EQ(*file->Size(), 10000u);
  EXPECT_EQ(this->Contents("f"), "abc" + std::string(9997, '\0'));
  EXPECT_TRUE(file->Allocate(5).ok());
  EXPECT_EQ(*file->Size(), 10000u);
}

TYPED_TEST(FileSystemTest, TruncateCutsAndGrowsWithZeros) {
  auto file = this->Open("f", FileOpenMode::kCreate);
  EXPECT_TRUE(file->WriteAt(0, "abcdef").ok());
  EXPECT_TRUE(file->Truncate(3).ok());
  EXPECT_TRUE(file->Truncate(5).ok());
  EXPECT_EQ(this->Contents("f"), Slice("abc\0\0", 5));
}

TYPED_TEST(FileSystemTest, MappingsAndFilesShowTheSameBytes) {
  auto file = this->Open("f", FileOpenMode::kCreate);
  EXPECT_TRUE(file->Allocate(8192).ok());
  auto map = this->fs().Map(this->Path("f"), 8192, MapMode::kReadWrite);
  ASSERT_TRUE(map.ok()) << map.status().ToString();
  auto second = this->fs().Map(this->Path("f"), 4096, MapMode::kRead);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*map)->size(), 8192u);
  EXPECT_EQ((*second)->size(), 4096u);
  std::memcpy((*map)->data() + 100, "mapped", 6);
  (*map)->Stored(100, 6);
  EXPECT_TRUE(file->WriteAt(4000, "written").ok());
  char bytes[6];
  EXPECT_TRUE(file->ReadAt(100, 6, bytes).ok());
  EXPECT_EQ(Slice(bytes, 6), "mapped");
  EXPECT_EQ(Slice((*map)->data() + 4000, 7), "written");
  EXPECT_EQ(Slice((*second)->data() + 100, 6), "mapped");
  EXPECT_TRUE((*map)->Sync(100, 6).ok());
  (*map)->Prefault(4096, 4096);
  (*map)->Prefault(100000, 1);
  map = Status(Code::kNotFound);
  EXPECT_EQ(this->Contents("f").substr(100, 6), "mapped");
}

TYPED_TEST(FileSystemTest, MappingMoreThanThereIsIsRefused) {
  this->Write("f", std::string(4096, 'x'));
  EXPECT_EQ(this->fs().Map(this->Path("f"), 4097, MapMode::kRead).status().code(),
            Code::kCorruption);
  EXPECT_EQ(this->fs().Map(this->Path("g"), 1, MapMode::kRead).status().code(), Code::kNotFound);
  EXPECT_EQ(this->fs().Map(this->Path("f"), 0, MapMode::kRead).status().code(),
            Code::kInvalidArgument);
}

TYPED_TEST(FileSystemTest, RenameReplaces) {
  this->Write("a", "new");
  this->Write("b", "old");
  EXPECT_TRUE(this->fs().Rename(this->Path("a"), this->Path("b")).ok());
  EXPECT_EQ(this->Contents("b"), "new");
  EXPECT_FALSE(*this->fs().Exists(this->Path("a")));
  const Status missing = this->fs().Rename(this->Path("a"), this->Path("b"));
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_NE(missing.message().find(this->Path("a")), std::string::npos);
  EXPECT_EQ(this->Contents("b"), "new");
}

TYPED_TEST(FileSystemTest, UnlinkRemovesTheNameAndNotWhatIsOpen) {
  this->Write("f", "abc");
  auto file = this->Open("f", FileOpenMode::kRead);
  EXPECT_TRUE(this->fs().Unlink(this->Path("f")).ok());
  EXPECT_FALSE(*this->fs().Exists(this->Path("f")));
  EXPECT_EQ(this->fs().Unlink(this->Path("f")).code(), Code::kNotFound);
  char bytes[3];
  EXPECT_TRUE(file->ReadAt(0, 3, bytes).ok());
  EXPECT_EQ(Slice(bytes, 3), "abc");
}

TYPED_TEST(FileSystemTest, DirectoriesAreMadeListedAndRemoved) {
  FileSystem& fs = this->fs();
  EXPECT_TRUE(fs.MakeDirectory(this->Path("d")).ok());
  EXPECT_TRUE(fs.MakeDirectory(this->Path("d")).ok());
  EXPECT_EQ(fs.MakeDirectory(this->Path("no/d")).code(), Code::kNotFound);
  this->Write("d/two", "12");
  this->Write("d/one", "1");
  EXPECT_TRUE(fs.MakeDirectory(this->Path("d/sub")).ok());
  const auto files = fs.List(this->Path("d"));
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->size(), 3u);
  EXPECT_EQ((*files)[0].name, "one");
  EXPECT_EQ((*files)[0].size, 1u);
  EXPECT_FALSE((*files)[0].is_directory);
  EXPECT_EQ((*files)[1].name, "sub");
  EXPECT_TRUE((*files)[1].is_directory);
  EXPECT_EQ((*files)[2].name, "two");
  EXPECT_EQ((*files)[2].size, 2u);
  EXPECT_TRUE(fs.SyncDirectory(this->Path("d")).ok());
  EXPECT_EQ(fs.RemoveDirectory(this->Path("d")).code(), Code::kIo);
  EXPECT_TRUE(fs.RemoveDirectory(this->Path("d/sub")).ok());
  EXPECT_EQ(fs.List(this->Path("d/sub")).status().code(), Code::kNotFound);
  EXPECT_EQ(fs.SyncDirectory(this->Path("d/sub")).code(), Code::kNotFound);
  EXPECT_EQ(fs.MakeDirectory(this->Path("d/one")).code(), Code::kInvalidArgument);
}

TYPED_TEST(FileSystemTest, LocksExcludeAndNameTheHolder) {
  FileSystem& fs = this->fs();
  {
    const auto lock = fs.Lock(this->Path("LOCK"), "node7 pid 12 job 3");
    ASSERT_TRUE(lock.ok()) << lock.status().ToString();
    const auto second = fs.Lock(this->Path("LOCK"), "somebody else");
    EXPECT_EQ(second.status().code(), Code::kBusy);
    EXPECT_EQ(second.status().message(), this->Path("LOCK") +
                                             " is locked by process 12 on host node7 (job 3); "
                                             "wait for it to end, or end it");
    EXPECT_EQ(this->Contents("LOCK"), "node7 pid 12 job 3");
  }
  const auto third = fs.Lock(this->Path("LOCK"), "a shorter");
  EXPECT_TRUE(third.ok());
  EXPECT_EQ(this->Contents("LOCK"), "a shorter");
}

TEST(HolderText, SaysProcessHostAndRest) {
  EXPECT_EQ(HolderText("node7 pid 12"), "process 12 on host node7");
  EXPECT_EQ(HolderText("node7 pid 12 job 3 rank 0"), "process 12 on host node7 (job 3 rank 0)");
  EXPECT_EQ(HolderText("node7 pid 12, quire repair"), "process 12 on host node7 (quire repair)");
  for (const std::string other :
       {"", "somebody", " pid 12", "node7 pid ", "node7 pid x", "a pid 1x"}) {
    EXPECT_EQ(HolderText(other), other);
  }
}

TYPED_TEST(FileSystemTest, TheHolderOfALockIsKnownWithoutTakingIt) {
  FileSystem& fs = this->fs();
  const auto holder = [&] { return fs.LockHolder(this->Path("LOCK")); };
  ASSERT_TRUE(holder().ok()) << holder().status().ToString();
  EXPECT_EQ(*holder(), "");
  EXPECT_FALSE(*fs.Exists(this->Path("LOCK")));
  {
    const auto lock = fs.Lock(this->Path("LOCK"), "node7 pid 12 job 3");
    ASSERT_TRUE(lock.ok());
    EXPECT_EQ(*holder(), "node7 pid 12 job 3");
    EXPECT_EQ(*holder(), "node7 pid 12 job 3");
  }
  EXPECT_EQ(*holder(), "");
  EXPECT_EQ(this->Contents("LOCK"), "node7 pid 12 job 3");  // left behind, held by no process
  EXPECT_EQ(*fs.LockHolder(this->Path("no/LOCK")), "");
}

TYPED_TEST(FileSystemTest, SharedLocksKeepTheOthersAwayAndNoneOfTheirKind) {
  FileSystem& fs = this->fs();
  const std::string path = this->Path("LOCK");
  EXPECT_EQ(fs.LockShared(path).status().code(), Code::kNotFound);
  EXPECT_FALSE(*fs.Exists(path));
  {
    const auto lock = fs.Lock(path, "node7 pid 12 job 3");
    const auto shared = fs.LockShared(path);
    EXPECT_EQ(shared.status().code(), Code::kBusy);
    EXPECT_NE(shared.status().message().find("process 12 on host node7"), std::string::npos);
  }
  auto first = fs.LockShared(path);
  auto second = fs.LockShared(path);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_EQ(*fs.LockHolder(path), "");
  first = Status(Code::kNotFound);
  const auto refused = fs.Lock(path, "a writer");
  EXPECT_EQ(refused.status().code(), Code::kBusy);
  EXPECT_NE(refused.status().message().find("that read"), std::string::npos);
  EXPECT_EQ(this->Contents("LOCK"), "node7 pid 12 job 3");
  second = Status(Code::kNotFound);
  EXPECT_TRUE(fs.Lock(path, "a writer").ok());
}

TYPED_TEST(FileSystemTest, FreeBytesAreKnown) {
  EXPECT_GT(*this->fs().FreeBytes(this->subject_.root), 0u);
  EXPECT_EQ(this->fs().FreeBytes(this->Path("no")).status().code(), Code::kNotFound);
  EXPECT_NE(this->fs().BootId(), 0u);
}

// The descriptor for the sync is taken before the new contents are in place.
TEST(ReplaceFile, WithoutADescriptorForTheDirectoryLeavesTheOldContents) {
  class WithoutDirectories : public ForwardingFileSystem {
   public:
    using ForwardingFileSystem::ForwardingFileSystem;
    Status SyncDirectory(const std::string&) override { return Status(Code::kOutOfMemory); }
    Result<std::unique_ptr<OpenDirectory>> OpenForSync(const std::string&) override {
      return Status(Code::kOutOfMemory, "too many open files");
    }
  };
  const TempDirectory directory;
  ASSERT_OK(ReplaceFile(PosixFileSystem(), directory / "f", "old"));
  WithoutDirectories fs(PosixFileSystem());
  EXPECT_EQ(ReplaceFile(fs, directory / "f", "new").code(), Code::kOutOfMemory);
  EXPECT_EQ(*ReadFile(fs, directory / "f", 100), "old");
  EXPECT_FALSE(*fs.Exists(directory / "f.tmp"));
}

TYPED_TEST(FileSystemTest, ReplaceFileReplacesAndCleansUp) {
  FileSystem& fs = this->fs();
  this->Write("f.tmp", "left over");
  EXPECT_TRUE(ReplaceFile(fs, this->Path("f"), "one").ok());
  EXPECT_EQ(this->Contents("f"), "one");
  EXPECT_TRUE(ReplaceFile(fs, this->Path("f"), "second").ok());
  EXPECT_EQ(this->Contents("f"), "second");
  EXPECT_EQ(fs.List(this->subject_.root)->size(), 1u);
  EXPECT_EQ(ReplaceFile(fs, this->Path("no/f"), "x").code(), Code::kNotFound);
}

TYPED_TEST(FileSystemTest, ReadFileRefusesMoreThanExpected) {
  this->Write("f", "12345");
  EXPECT_EQ(*ReadFile(this->fs(), this->Path("f"), 5), "12345");
  EXPECT_EQ(ReadFile(this->fs(), this->Path("f"), 4).status().code(), Code::kCorruption);
  EXPECT_EQ(ReadFile(this->fs(), this->Path("g"), 4).status().code(), Code::kNotFound);
}

TEST(CheckName, TakesOnlyHarmlessNames) {
  for (const char* good : {"a", "A-1_b.c", "0", "x.seg", "a..b"}) {
    EXPECT_TRUE(CheckName(good).ok()) << good;
  }
  EXPECT_TRUE(CheckName(std::string(255, 'n')).ok());
  for (const char* bad : {"", ".", "..", ".a", "-a", "a/b", "/", "a b", "\xc3\xa4", "a\n"}) {
    EXPECT_EQ(CheckName(bad).code(), Code::kInvalidArgument) << bad;
  }
  EXPECT_EQ(CheckName(Slice("a\0b", 3)).code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckName(std::string(256, 'n')).code(), Code::kInvalidArgument);
}

TEST(FileSystemType, FileSystemsThatAlwaysWriteElsewhereAreKnown) {
  EXPECT_STREQ(AlwaysWritesElsewhere(0x2FC12FC1), "zfs");
  EXPECT_STREQ(AlwaysWritesElsewhere(0xCA451A4E), "bcachefs");
  EXPECT_EQ(AlwaysWritesElsewhere(0x9123683E), nullptr) << "btrfs can be told to write in place";
  EXPECT_EQ(AlwaysWritesElsewhere(0xEF53), nullptr);
}

}  // namespace
}  // namespace quire::io::file_system_test
