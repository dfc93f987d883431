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

// A request that comes while its channel's service is set waits for it, or is handled: it is never
// told that there is none any more.
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
