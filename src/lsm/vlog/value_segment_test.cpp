// Value segments while they are written: which pages are touched, when, and by whom.
#include "lsm/vlog/value_segment.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/threads/executor.h"
#include "io/sim/sim_file_system.h"
#include "tests/support/temp_directory.h"

namespace quire::lsm::value_segment_test {
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
    Status reserved;
    const uint64_t offset = segment_->Reserve(log::RecordSize(1, value.size()), &reserved);
    EXPECT_TRUE(reserved.ok()) << reserved.ToString();
    EXPECT_NE(offset, log::kNoRoom);
    EXPECT_TRUE(segment_->Store(offset, "k", value, &ref).ok());
    return ref;
  }
  std::string CopyOf(const log::ValueRef& ref) {
    std::string copy(ref.value_size, '\0');
    EXPECT_TRUE(segment_->InMapping(ref) && segment_->TryCopy(ref, copy.data()));
    return copy;
  }
  uint64_t PiecesLeft() {
    uint64_t count = 0;
    while (segment_->TouchNext()) ++count;
    return count;
  }

  std::unique_ptr<io::SimFileSystem> fs_ = io::NewSimFileSystem();
  std::shared_ptr<ValueSegment> segment_;
};

TEST_F(ValueSegmentTest, EveryPieceIsTouchedOnceByConcurrentThreads) {
  std::atomic<uint64_t> count{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] { count += PiecesLeft(); });
    }
  }
  EXPECT_EQ(count, kPieces);
}

TEST_F(ValueSegmentTest, AWriterTouchesAPieceThatNoThreadTouchedBefore) {
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
  EXPECT_EQ(CopyOf(ref), "small");
  EXPECT_EQ(PiecesLeft(), kPieces - 2);
}

TEST_F(ValueSegmentTest, AClosedSegmentIsTouchedNoMore) {
  ASSERT_TRUE(segment_->TouchNext());
  segment_->Close();
  EXPECT_EQ(PiecesLeft(), 0u);
}

TEST_F(ValueSegmentTest, ADeviceWithoutRoomReservesNothing) {
  const auto faults = io::NewFaultFileSystem(*fs_);
  log::SegmentHeader header;
  header.kind = log::SegmentKind::kValue;
  header.generation = header.id = 2;
  header.capacity = kCapacity;
  segment_ = ValueSegment::Create(*faults, "/val-2.seg", header).value();
  const log::ValueRef before = Store("before");
  faults->FailAt(io::kFaultAllocate, 1, UINT64_MAX, Code::kNoSpace);
  Status status;
  EXPECT_EQ(segment_->Reserve(2 * log::kFirstRoomBytes, &status), log::kNoRoom);
  EXPECT_EQ(status.code(), Code::kNoSpace) << status.ToString();
  EXPECT_EQ(PiecesLeft(), 0u) << "the background takes no room either";
  faults->FailAt(0, 1, 0, Code::kOk);
  const log::ValueRef after = Store(std::string(log::kFirstRoomBytes, 'a'));
  EXPECT_EQ(after.offset, before.offset + log::RecordSize(1, before.value_size));
  EXPECT_EQ(CopyOf(before), "before");
  segment_.reset();  // before the file system that made it
}

// A database takes what it holds.
TEST(ValueSegmentRoom, GrowsWithWhatIsStored) {
  const test::TempDirectory directory;
  const auto executor = base::NewManualExecutor();
  const auto allocated = [&] {
    uint64_t sum = 0;
    for (const io::FileInfo& file : *io::PosixFileSystem().List(directory.path())) {
      sum += file.allocated;
    }
    return sum;
  };
  auto log = *ValueLog::Open(io::PosixFileSystem(), directory.path(), {}, *executor, {});
  log::ValueRef ref{};
  ASSERT_TRUE(log->Append("k", std::string(2000, 'v'), &ref).ok());
  EXPECT_LE(allocated(), uint64_t{1} << 20);
  const std::string large(1 << 20, 'l');
  for (uint64_t stored = 1; stored <= 10; ++stored) {
    ASSERT_TRUE(log->Append("k", large, &ref).ok());
    EXPECT_LE(allocated(), (2 * stored + 1) << 20);
  }
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
}  // namespace quire::lsm::value_segment_test
