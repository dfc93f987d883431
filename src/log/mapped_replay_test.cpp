// Replays of a log whose pages go from under its mapping, as where the device cannot give them.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "log/record.h"
#include "log/segment.h"
#include "log/segment_testing.h"
#include "tests/support/temp_directory.h"

namespace quire::log::mapped_replay_test {
namespace {

constexpr uint64_t kBoot = 42;
constexpr uint64_t kCapacity = uint64_t{4} << 20;
constexpr uint64_t kRecords = 3000;
constexpr uint64_t kValueBytes = 1000;

class MappedReplay : public ::testing::Test {
 protected:
  void SetUp() override {
    SegmentHeader header;
    header.generation = 7;
    header.capacity = kCapacity;
    header.boot_id = kBoot;
    auto made = Segment::Create(io::PosixFileSystem(), path_, header, Segment::Origin::kNew);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    ASSERT_TRUE((*made)->map().GrowRoom(kCapacity).ok());
    char* const data = (*made)->data();
    const std::string value(kValueBytes, 'v');
    uint64_t at = kSegmentHeaderBytes;
    for (uint64_t i = 0; i < kRecords; ++i) {
      at = Put(data, header.generation, at, std::to_string(i), value);
    }
    MarkComplete(data, header.generation, at);
  }

  // Opens the segment, cuts the file off at `cut`, and replays it in the boot `boot_id`.
  Status Replayed(uint64_t cut, uint64_t boot_id) {
    taken_ = 0;
    asked_.clear();
    QUIRE_ASSIGN_OR_RETURN(const auto segment, Segment::Open(io::PosixFileSystem(), path_));
    std::filesystem::resize_file(path_, cut);
    const auto take = [this](uint64_t, const char*) {
      ++taken_;
      return Status();
    };
    const auto make_readable = [&](uint64_t offset, uint64_t size) {
      asked_.push_back(size);
      return segment->map().MakeReadable(offset, size);
    };
    return Replay({segment->data(), make_readable}, segment->header(), boot_id, path_, take)
        .status();
  }

  const test::TempDirectory directory_;
  const std::string path_ = directory_ / "log-0.seg";
  uint64_t taken_ = 0;
  std::vector<uint64_t> asked_;
};

TEST_F(MappedReplay, ALostPageIsAnErrorOfTheReplay) {
  const Status status = Replayed(kCapacity / 2, kBoot);
  EXPECT_EQ(status.code(), Code::kIo) << status.ToString();
  EXPECT_NE(status.message().find(path_), std::string::npos) << status.ToString();
  EXPECT_GT(taken_, 100u);
  EXPECT_LT(taken_, kRecords);
}

TEST_F(MappedReplay, ALostPageIsNoEndOfTheLogInAnotherBoot) {
  const Status status = Replayed(kCapacity / 2, kBoot + 1);
  EXPECT_EQ(status.code(), Code::kIo) << status.ToString();
  EXPECT_EQ(taken_, 0u) << "where the log ends is not known";
}

TEST_F(MappedReplay, PagesAreAskedForInFewPieces) {
  for (const uint64_t boot : {kBoot, kBoot + 1}) {
    const Status status = Replayed(kCapacity, boot);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(taken_, kRecords);
    ASSERT_FALSE(asked_.empty());
    EXPECT_LE(asked_.front(), uint64_t{64} << 10);
    EXPECT_LE(asked_.size(), 30u);
  }
}

}  // namespace
}  // namespace quire::log::mapped_replay_test
