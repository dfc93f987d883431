#include "tools/quire-streamd/tending_schedule.h"

#include <gtest/gtest.h>

namespace quire::streamd::tending_schedule_test {
namespace {

using stream::StorePart;

TEST(TendingSchedule, SkipsPartsThatAreWrittenOrWereWrittenJustNow) {
  TendingSchedule schedule;
  bool written = true;
  const auto look = [&] {
    return schedule.Due({{"a", 0}}, [&](const StorePart&) { return written; });
  };
  EXPECT_TRUE(look().empty());
  EXPECT_TRUE(look().empty());
  written = false;
  EXPECT_TRUE(look().empty()) << "its writer may come again at once";
  EXPECT_EQ(look(), (std::vector<StorePart>{{"a", 0}}));
  EXPECT_TRUE(look().empty()) << "it has been tended";
  written = true;
  EXPECT_TRUE(look().empty());
  written = false;
  EXPECT_TRUE(look().empty());
  EXPECT_EQ(look().size(), 1u);
}

TEST(TendingSchedule, ComesBackAfterAWhileForVersionsThatGrewOld) {
  TendingSchedule schedule;
  uint32_t due = 0;
  for (uint32_t i = 0; i < 3 * TendingSchedule::kLooksBetween; ++i) {
    due += static_cast<uint32_t>(
        schedule.Due({{"a", 0}, {"b", 1}}, [](const StorePart&) { return false; }).size());
  }
  EXPECT_EQ(due, 6u);
}

}  // namespace
}  // namespace quire::streamd::tending_schedule_test
