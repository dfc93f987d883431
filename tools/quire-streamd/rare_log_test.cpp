#include "tools/quire-streamd/rare_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "quire/log.h"

namespace quire::streamd::rare_log_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class RareLogTest : public testing::Test {
 protected:
  void SetUp() override {
    SetLogSink([this](LogLevel, const std::string& text) { lines_.push_back(text); });
  }
  void TearDown() override { SetLogSink({}); }

  std::vector<std::string> lines_;
  RareLog log_{"refused connections"};
};

TEST_F(RareLogTest, AFewLinesAreLoggedAtOnceAndTheRestAreCounted) {
  for (uint64_t i = 0; i < RareLog::kLinesMax + 1000; ++i) {
    log_.Warn("stranger " + std::to_string(i), 10 + i);
  }
  EXPECT_THAT(lines_, ElementsAre("stranger 0", "stranger 1", "stranger 2", "stranger 3",
                                  "stranger 4"));
  lines_.clear();
  log_.Tell(9 + RareLog::kWindowNs);
  EXPECT_THAT(lines_, IsEmpty()) << "the window is not over";
  log_.Tell(10 + RareLog::kWindowNs);
  log_.Tell(10 + 3 * RareLog::kWindowNs);
  EXPECT_THAT(lines_, ElementsAre("1000 more refused connections within a minute"));
}

TEST_F(RareLogTest, ANewWindowLogsAFewLinesAgain) {
  for (int i = 0; i < 7; ++i) log_.Warn("first", 1);
  lines_.clear();
  log_.Warn("second", 1 + RareLog::kWindowNs);
  EXPECT_THAT(lines_, ElementsAre("2 more refused connections within a minute", "second"));
  lines_.clear();
  log_.Tell(2 + 2 * RareLog::kWindowNs);
  EXPECT_THAT(lines_, IsEmpty()) << "nothing was left out";
}

}  // namespace
}  // namespace quire::streamd::rare_log_test
