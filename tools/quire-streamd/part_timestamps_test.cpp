#include "tools/quire-streamd/part_timestamps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "io/sim/sim_file_system.h"
#include "stream/store/local_reader.h"
#include "stream/store/part.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::streamd::part_timestamps_test {
namespace {

class PartTimestampsTest : public ::testing::Test {
 protected:
  std::unique_ptr<StreamWriter> Write() {
    StreamOptions options;
    options.log_bytes = 1 << 20;
    auto writer = stream::OpenWriter(io::PosixFileSystem(), place_.path(), "store", 3, options);
    EXPECT_OK(writer.status());
    EXPECT_OK((*writer)->Create("T", 100).status());
    EXPECT_OK((*writer)->Put("T").status());
    return std::move(*writer);
  }
  uint64_t NewestTold() {
    const auto told = dates_.Of({{"store", 3}});
    EXPECT_EQ(told.size(), 1u);
    return told[0].newest_ns;
  }
  uint64_t NewestThere() {
    const auto reader = stream::OpenLocalReader(io::PosixFileSystem(), place_.path(), "store", 3);
    return (*reader)->Versions("T")->front().unix_time_ns;
  }

  const test::TempDirectory place_;
  PartTimestamps dates_{io::PosixFileSystem(), place_.path()};
};

TEST_F(PartTimestampsTest, APartIsDatedAsWrittenNowAndThenByItsNewestVersion) {
  EXPECT_EQ(NewestTold(), 0u) << "there is none";
  for (int i = 0; i < 2; ++i) {
    auto writer = Write();
    EXPECT_EQ(NewestTold(), stream::kWrittenNow);
    ASSERT_OK(writer->Finish());
    writer.reset();
    EXPECT_EQ(NewestTold(), NewestThere());
    EXPECT_EQ(NewestTold(), NewestThere());
  }
}

// The daemon tends a part, and so does a reader that rebuilds the index of a dead writer.
TEST_F(PartTimestampsTest, APartThatIsOnlyTendedIsNotDatedAsWritten) {
  ASSERT_OK(Write()->Finish());
  const uint64_t newest_ns = NewestTold();
  const auto part = stream::Part::OpenExisting(io::PosixFileSystem(), {place_.path(), "store", 3});
  ASSERT_OK(part.status());
  EXPECT_EQ(NewestTold(), newest_ns);
}

// A writer has come and gone between two looks.
TEST_F(PartTimestampsTest, NoticeAWriterThatTheyHaveNotSeen) {
  ASSERT_OK(Write()->Finish());
  const uint64_t first = NewestTold();
  ASSERT_OK(Write()->Finish());
  EXPECT_GT(NewestTold(), first);
}

// Each look after the first opens and maps files again, and any of these calls can fail.
TEST(PartTimestamps, RememberNoLookThatFailed) {
  const auto disk = io::NewSimFileSystem();
  auto writer = stream::OpenWriter(*disk, "/place", "store", 3, {.log_bytes = 1 << 20});
  ASSERT_OK(writer.status());
  ASSERT_OK((*writer)->Create("T", 100).status());
  ASSERT_OK((*writer)->Put("T").status());
  const std::vector<stream::StorePart> parts = {{"store", 3}};
  const auto lookers = io::NewFaultFileSystem(*disk);
  PartTimestamps timestamps(*lookers, "/place");
  EXPECT_EQ(timestamps.Of(parts)[0].newest_ns, stream::kWrittenNow);
  writer->reset();
  const uint64_t newest_ns = PartTimestamps(*disk, "/place").Of(parts)[0].newest_ns;
  ASSERT_GT(newest_ns, 0u);
  bool failed = true;
  for (uint64_t n = 1; failed; ++n) {
    SCOPED_TRACE(n);
    PartTimestamps fresh(*lookers, "/place");
    lookers->FailAt(io::kFaultOpen | io::kFaultMap, n, 1, Code::kOutOfMemory);
    EXPECT_THAT(fresh.Of(parts)[0].newest_ns, testing::AnyOf(0u, newest_ns));
    failed = lookers->failures() != 0;
    lookers->FailAt(io::kFaultOpen | io::kFaultMap, 1, 0, Code::kOutOfMemory);
    EXPECT_EQ(fresh.Of(parts)[0].newest_ns, newest_ns);
    // As long as looks fail, the date of the last successful one counts.
    lookers->FailAt(io::kFaultOpen | io::kFaultMap, n, UINT64_MAX, Code::kOutOfMemory);
    EXPECT_EQ(fresh.Of(parts)[0].newest_ns, newest_ns);
    lookers->FailAt(io::kFaultOpen | io::kFaultMap, 1, 0, Code::kOutOfMemory);
  }
}

// The next writer may come at any moment.
TEST(PartTimestamps, ChangeNothingAndTakeNoLockWhereTheWriterDied) {
  const auto disk = io::NewSimFileSystem();
  const auto owners = io::NewFaultFileSystem(*disk);
  auto writer = stream::OpenWriter(*owners, "/place", "store", 3, {.log_bytes = 1 << 20});
  ASSERT_OK(writer.status());
  ASSERT_OK((*writer)->Create("T", 100).status());
  ASSERT_OK((*writer)->Put("T").status());
  owners->Kill();
  writer->reset();

  const auto lookers = io::NewFaultFileSystem(*disk);
  lookers->FailAt(io::kFaultChange, 1, UINT64_MAX, Code::kReadOnly);
  const uint64_t steps = disk->steps();
  const auto told = PartTimestamps(*lookers, "/place").Of({{"store", 3}});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_GT(told[0].newest_ns, 0u);
  EXPECT_EQ(lookers->failures(), 0u);
  EXPECT_EQ(disk->steps(), steps);
}

}  // namespace
}  // namespace quire::streamd::part_timestamps_test
