#include "io/paths/file_section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "io/sim/sim_file_system.h"
#include "tests/support/status_asserts.h"

namespace quire::io::file_section_test {
namespace {

class FileSections : public testing::Test {
 protected:
  FileSections() {
    auto file = fs_->Open("/file", FileOpenMode::kReadWriteCreate);
    EXPECT_OK(file.status());
    file_ = std::move(*file);
    EXPECT_OK(file_->WriteAt(0, "0123456789"));
  }
  static std::string Read(const File& file, uint64_t offset, size_t size) {
    std::string bytes(size, '?');
    const Status status = file.ReadAt(offset, size, bytes.data());
    return status.ok() ? bytes : status.ToString();
  }

  std::unique_ptr<SimFileSystem> fs_ = NewSimFileSystem();
  std::shared_ptr<File> file_;
};

TEST_F(FileSections, AreReadAsIfNothingElseWereThere) {
  const auto section = NewFileSection(file_, 3, 4);
  EXPECT_EQ(*section->Size(), 4u);
  EXPECT_EQ(Read(*section, 0, 4), "3456");
  EXPECT_EQ(Read(*section, 2, 2), "56");
  EXPECT_EQ(Read(*section, 4, 0), "");
  EXPECT_THAT(Read(*section, 2, 3), testing::StartsWith("corruption: /file from 3 ends at 4"));
  EXPECT_THAT(Read(*section, UINT64_MAX, 2), testing::StartsWith("corruption"));
}

TEST_F(FileSections, AreNotWritten) {
  const auto section = NewFileSection(file_, 3, 4);
  EXPECT_EQ(section->WriteAt(0, "x").code(), Code::kUnsupported);
  EXPECT_EQ(section->Truncate(0).code(), Code::kUnsupported);
  EXPECT_EQ(section->Allocate(9).code(), Code::kUnsupported);
  EXPECT_EQ(Read(*file_, 0, 10), "0123456789");
}

TEST_F(FileSections, ATailGrowsWithTheFile) {
  const auto tail = NewFileTail(file_, 8);
  EXPECT_EQ(*tail->Size(), 2u);
  ASSERT_OK(tail->WriteAt(1, "abc"));
  EXPECT_EQ(*tail->Size(), 4u);
  EXPECT_EQ(Read(*tail, 0, 4), "8abc");
  EXPECT_EQ(Read(*file_, 0, 12), "012345678abc");
  ASSERT_OK(tail->Truncate(1));
  EXPECT_EQ(*file_->Size(), 9u);
  ASSERT_OK(tail->Sync());
  EXPECT_EQ(*NewFileTail(file_, 100)->Size(), 0u);
}

}  // namespace
}  // namespace quire::io::file_section_test
