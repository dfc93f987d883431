#include "tools/quire-streamd/part_dates.h"

#include <gtest/gtest.h>

#include <memory>

#include "io/sim/sim_file_system.h"
#include "stream/store/streams.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::streamd::part_dates_test {
namespace {

class PartDatesTest : public ::testing::Test {
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
  PartDates dates_{io::PosixFileSystem(), place_.path()};
};

TEST_F(PartDatesTest, TellThatAPartIsWrittenAndThenWhenItWas) {
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

// Between two looks a writer has come and gone.
TEST_F(PartDatesTest, NoticeAWriterThatTheyHaveNotSeen) {
  ASSERT_OK(Write()->Finish());
  const uint64_t first = NewestTold();
  ASSERT_OK(Write()->Finish());
  EXPECT_GT(NewestTold(), first);
}

// The next writer may come at any moment.
TEST(PartDates, ChangeNothingAndTakeNoLockWhereTheWriterDied) {
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
  const auto told = PartDates(*lookers, "/place").Of({{"store", 3}});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_GT(told[0].newest_ns, 0u);
  EXPECT_EQ(lookers->failures(), 0u);
  EXPECT_EQ(disk->steps(), steps);
}

}  // namespace
}  // namespace quire::streamd::part_dates_test
