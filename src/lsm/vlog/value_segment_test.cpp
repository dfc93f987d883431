// Value segments while they are written: which pages are touched, when, and by whom.
#include "lsm/vlog/value_segment.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/executor.h"
#include "io/sim/sim_file_system.h"
#include "tests/support/temp_directory.h"

namespace quire::lsm {
namespace {

constexpr uint64_t kPieces = 4;
constexpr uint64_t kCapacity = (kPieces - 1) * kTouchBytes + 4096;  // the last piece is a short one

class ValueSegmentTest : public ::testing::Test {
 protected:
  ValueSegmentTest() {
    log::SegmentHeader header;
    header.kind = log::SegmentKind::kValue;
    header.generation = header.id = 1;
    header.capacity = kCapacity;
    auto made = ValueSegment::Create(*fs_, "/val-1.seg", header);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    segment_ = std::move(made).value();
  }
  log::ValueRef Store(Slice value) {
    log::ValueRef ref{};
    const uint64_t offset = segment_->Reserve(log::RecordSize(1, value.size()));
    EXPECT_NE(offset, log::kNoRoom);
    EXPECT_TRUE(segment_->Store(offset, "k", value, &ref).ok());
    return ref;
  }
  uint64_t PiecesLeft() {
    uint64_t count = 0;
    while (segment_->TouchNext()) ++count;
    return count;
  }

  std::unique_ptr<io::SimFileSystem> fs_ = io::NewSimFileSystem();
  std::shared_ptr<ValueSegment> segment_;
};

TEST_F(ValueSegmentTest, EveryPieceIsTouchedOnceWhoeverAsks) {
  std::atomic<uint64_t> count{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] { count += PiecesLeft(); });
    }
  }
  EXPECT_EQ(count, kPieces);
}

TEST_F(ValueSegmentTest, AWriterTouchesAPieceThatNobodyTouchedBefore) {
  const std::string value(1000, 'v');
  for (int i = 0; i < 10; ++i) Store(value);
  EXPECT_EQ(PiecesLeft(), kPieces - 1) << "one piece for ten values";
}

TEST_F(ValueSegmentTest, AWriterFindsTouchedPiecesAndTouchesNoMore) {
  ASSERT_TRUE(segment_->TouchNext());
  Store("value");
  EXPECT_EQ(PiecesLeft(), kPieces - 1);
}

TEST_F(ValueSegmentTest, PiecesOfLargeValuesAreSkippedForGood) {
  Store(std::string(kTouchBytes + kTouchBytes / 2, 'L'));
  const log::ValueRef ref = Store("small");
  EXPECT_EQ(ref.offset / kTouchBytes, 1u);
  EXPECT_EQ(segment_->InMapping(ref), "small");
  EXPECT_EQ(PiecesLeft(), kPieces - 2);
}

TEST_F(ValueSegmentTest, AClosedSegmentIsTouchedNoMore) {
  ASSERT_TRUE(segment_->TouchNext());
  segment_->Close();
  EXPECT_EQ(PiecesLeft(), 0u);
}

bool Maps(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path) != std::string::npos) return true;
  }
  return false;
}

// Appends until a job in the background is due, and closes the log while it may run.
TEST(ValueLogClose, LeavesNeitherAMappingNorAnUnusedFileBehind) {
  const auto executor = base::NewThreadPool(1, "values").value();
  for (int round = 0; round < 20; ++round) {
    const test::TempDirectory directory;
    StorageOptions options;
    options.value_segment_bytes = 16 << 20;
    auto log = *ValueLog::Open(io::PosixFileSystem(), directory.path(), options, *executor, {});
    const std::string value(60'000, 'v');
    log::ValueRef ref{};
    for (int i = 0; i < 72; ++i) ASSERT_TRUE(log->Append("k", value, &ref).ok());
    // The first lap gives the job time to begin, the later ones less and less.
    for (int i = round; i < 20; ++i) std::this_thread::yield();
    log.reset();
    EXPECT_FALSE(Maps(directory.path())) << "round " << round;
    EXPECT_EQ(io::PosixFileSystem().List(directory.path())->size(), 1u)
        << "what was made in vain is gone";
  }
}

}  // namespace
}  // namespace quire::lsm
