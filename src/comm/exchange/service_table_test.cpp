#include "comm/exchange/service_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::comm::service_table_test {
namespace {

TEST(ServiceTable, RunsTheServiceOfAChannelUntilItIsTakenAway) {
  for (const uint32_t channel : {1u, kQuickChannels + 1}) {
    ServiceTable table;
    std::string answer;
    std::unique_ptr<UnfinishedRequest> rest;
    EXPECT_FALSE(table.Has(channel));
    EXPECT_CODE(table.Run(channel, 0, "", &answer, &rest), Code::kNotFound);
    for (const char* text : {"first", "second"}) {
      table.Set(channel, [text](int, Slice, std::string* to) {
        *to = text;
        return Status();
      });
      EXPECT_OK(table.Run(channel, 0, "", &answer, &rest));
      EXPECT_EQ(answer, text);
    }
    table.Set(channel, {});
    EXPECT_TRUE(table.Has(channel));
    EXPECT_CODE(table.Run(channel, 0, "", &answer, &rest), Code::kNotFound);
  }
}

// As a Context whose databases and jobs come and go: each has a number, and serves a few channels
// of it. Some numbers are never used.
TEST(ServiceTable, StaysSmallHoweverManyChannelsWereTakenAway) {
  constexpr uint32_t kNumbers = 10'000;
  constexpr uint32_t kStays = 20 << 4 | 3;
  const auto serve = [](int, Slice, std::string*) { return Status(); };
  ServiceTable table;
  std::string answer;
  std::unique_ptr<UnfinishedRequest> rest;
  table.Set(kStays, serve);
  table.TakeAway(21 << 4 | 3);  // which it never had
  for (uint32_t number = 22; number <= kNumbers; number += number % 3 + 1) {
    for (uint32_t channel = number << 4 | 1; channel <= (number << 4 | 5); ++channel) {
      table.Set(channel, serve);
      ASSERT_OK(table.Run(channel, 0, "", &answer, &rest));
    }
    ASSERT_FALSE(table.Has((number + 1) << 4 | 1)) << "a request to it waits";
    for (uint32_t channel = number << 4 | 1; channel <= (number << 4 | 5); ++channel) {
      table.TakeAway(channel);
      ASSERT_TRUE(table.Has(channel));
      EXPECT_CODE(table.Run(channel, 0, "", &answer, &rest), Code::kNotFound);
    }
    ASSERT_LE(table.size(), kTakenAwayMax + 1);
  }
  for (const uint32_t late : {21u << 4 | 3, 22u << 4 | 1, 22u << 4 | 5}) {
    EXPECT_TRUE(table.Has(late));
    EXPECT_CODE(table.Run(late, 0, "", &answer, &rest), Code::kNotFound);
    table.TakeAway(late);  // once more
    EXPECT_CODE(table.Run(late, 0, "", &answer, &rest), Code::kNotFound);
  }
  EXPECT_OK(table.Run(kStays, 0, "", &answer, &rest));
  EXPECT_FALSE(table.Has((kNumbers + 10) << 4 | 1));
  EXPECT_FALSE(table.Has(1)) << "the low ones are remembered for ever";
  const uint32_t again = 22 << 4 | 1;
  table.Set(again, serve);
  EXPECT_OK(table.Run(again, 0, "", &answer, &rest));
  table.TakeAway(again);
  EXPECT_CODE(table.Run(again, 0, "", &answer, &rest), Code::kNotFound);
  EXPECT_LE(table.size(), kTakenAwayMax + 1);
}

// It is asked to go on behind thousands of others that came and went.
TEST(ServiceTable, AnUnfinishedRequestOfAForgottenChannelIsNotFound) {
  class Rest final : public UnfinishedRequest {
   public:
    bool GoOn(Status*, std::string*) override {
      ADD_FAILURE() << "its service is gone";
      return false;
    }
  };
  ServiceTable table;
  std::string answer;
  std::unique_ptr<UnfinishedRequest> rest;
  table.SetPatient(kQuickChannels, 1,
                   [](int, Slice, Status*, std::string*) { return std::make_unique<Rest>(); });
  EXPECT_OK(table.Run(kQuickChannels, 0, "", &answer, &rest));
  ASSERT_NE(rest, nullptr);
  for (uint32_t i = 0; i <= kTakenAwayMax; ++i) table.TakeAway(kQuickChannels + i);
  EXPECT_CODE(table.GoOn(kQuickChannels, 0, &answer, &rest), Code::kNotFound);
  EXPECT_EQ(rest, nullptr);
}

// A request that arrives while its channel's service is set waits for it, or is handled: it is
// never answered that the service was removed.
TEST(ServiceTable, HasNoChannelBeforeItsService) {
  const auto channels = static_cast<uint32_t>(test::ScaledCount(100'000));
  ServiceTable table;
  std::atomic<uint32_t> looked_for{0};
  std::thread setter([&] {
    for (uint32_t channel = 1; channel <= channels; ++channel) {
      while (looked_for.load() < channel) std::this_thread::yield();
      table.Set(channel, [](int, Slice, std::string*) { return Status(); });
    }
  });
  uint64_t refused = 0;
  std::string answer;
  std::unique_ptr<UnfinishedRequest> rest;
  for (uint32_t channel = 1; channel <= channels; ++channel) {
    looked_for = channel;
    while (!table.Has(channel)) std::this_thread::yield();
    if (!table.Run(channel, 0, "", &answer, &rest).ok()) ++refused;
  }
  setter.join();
  EXPECT_EQ(refused, 0u);
}

}  // namespace
}  // namespace quire::comm::service_table_test
