// Pages disappear from the mapping of a stream's log, as if a device could not read them. The call
// that reads them returns an error; the program never ends.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "io/files/descriptor.h"
#include "stream/log/log_format.h"
#include "stream/store/local_reader.h"
#include "stream/store/stream_testing.h"
#include "stream/store/writer.h"
#include "tests/support/shortened_maps.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::stream::lost_pages_test {
namespace {

constexpr uint64_t kBytes = 64 << 10;
constexpr int kVersions = 4;

class LostPages : public ::testing::Test {
 protected:
  void SetUp() override {
    auto writer = OpenWriter(fs_, place_, "store", 0, SmallLog(1 << 20));
    ASSERT_OK(writer.status());
    writer_ = *std::move(writer);
    const auto memory = writer_->Create("x", kBytes);
    ASSERT_OK(memory.status());
    for (uint64_t version = 1; version <= kVersions; ++version) {
      Compute(*memory, "x", version, kBytes);
      ASSERT_OK(writer_->Snapshot().status());
    }
  }
  void Shorten(uint64_t bytes) {
    std::filesystem::copy_file(log_, saved_);
    std::filesystem::resize_file(log_, bytes);
  }
  void ComeBack() {
    std::filesystem::remove(log_);
    std::filesystem::rename(saved_, log_);
  }

  const test::TempDirectory directory_;
  const std::string place_ = directory_ / "place";
  const std::string log_ = place_ + "/store/log-0";
  const std::string saved_ = directory_ / "log";
  test::ShortenedMaps fs_;
  std::unique_ptr<StreamWriter> writer_;
};

TEST_F(LostPages, AreAnErrorOfWhatReadsThem) {
  auto reader = OpenLocalReader(fs_, place_, "store", 0);
  ASSERT_OK(reader.status());
  const auto view = (*reader)->View("x", kVersions);
  ASSERT_OK(view.status());
  std::string copy;
  const Into into(&copy);
  ASSERT_OK((*reader)->Get("x", 1, into));
  Shorten(kLogHeaderBytes + kBytes + 2 * kPageBytes);
  EXPECT_EQ((*view)->Verify().code(), Code::kIo);
  EXPECT_EQ((*reader)->Get("x", kVersions, into).code(), Code::kIo);
  EXPECT_EQ((*reader)->View("x", kVersions).status().code(), Code::kIo);
  EXPECT_EQ((*reader)->Versions("x").status().code(), Code::kIo);
  ASSERT_OK((*reader)->Get("x", 1, into));  // its pages are there
  EXPECT_EQ(copy, BytesOf("x", 1, kBytes));
  std::filesystem::resize_file(log_, std::filesystem::file_size(saved_));
}

// One page is lost, as with a bad sector.
TEST_F(LostPages, LostPagesAmidDataFailTheGet) {
  auto reader = OpenLocalReader(fs_, place_, "store", 0);
  ASSERT_OK(reader.status());
  const auto view = (*reader)->View("x", kVersions);
  ASSERT_OK(view.status());
  const auto begin = reinterpret_cast<uintptr_t>((*view)->bytes().data());
  void* const page = reinterpret_cast<void*>(AlignUp(begin, kPageBytes));
  const io::FileDescriptor empty =
      io::FileDescriptor::Open(directory_ / "empty", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_TRUE(empty.ok());
  ASSERT_EQ(::mmap(page, kPageBytes, PROT_READ, MAP_SHARED | MAP_FIXED, empty.get(), 0), page);
  std::string copy;
  const Into into(&copy);
  EXPECT_EQ((*reader)->Get("x", kVersions, into).code(), Code::kIo);
  EXPECT_EQ((*view)->Verify().code(), Code::kIo);
  EXPECT_OK((*reader)->Versions("x").status());
  ASSERT_OK((*reader)->Get("x", 1, into));
  EXPECT_EQ(copy, BytesOf("x", 1, kBytes));
}

TEST_F(LostPages, AreAnErrorOfTheOpening) {
  writer_.reset();
  for (const uint64_t bytes :
       {uint64_t{0}, kPageBytes, kLogHeaderBytes, kLogHeaderBytes + kBytes + 2 * kPageBytes}) {
    std::filesystem::copy_file(log_, saved_);
    fs_.Shorten("log-0", bytes);
    const Status status = OpenWriter(fs_, place_, "store", 0, SmallLog(1 << 20)).status();
    EXPECT_EQ(status.code(), Code::kIo) << bytes << ": " << status.ToString();
    EXPECT_NE(status.message().find(log_), std::string::npos) << status.ToString();
    fs_.Shorten("", 0);
    ComeBack();
  }
  ASSERT_OK(OpenWriter(fs_, place_, "store", 0, SmallLog(1 << 20)).status());
  auto reader = OpenLocalReader(fs_, place_, "store", 0);
  ASSERT_OK(reader.status());
  std::string copy;
  ASSERT_OK((*reader)->Get("x", kVersions, Into(&copy)));
  EXPECT_EQ(copy, BytesOf("x", kVersions, kBytes));
}

}  // namespace
}  // namespace quire::stream::lost_pages_test
