#include "tools/quire-streamd/part_registry.h"

#include <gtest/gtest.h>

#include "quire/log.h"
#include "tests/support/status_asserts.h"

namespace quire::streamd::part_registry_test {
namespace {

constexpr uint64_t kMs = 1'000'000;

stream::RegisteredPart Part(uint32_t rank, uint64_t newest_ns = 1) {
  return {{"a", rank}, newest_ns};
}

TEST(PartRegistry, KnowsAPartsAddressUntilItsRegistrationExpires) {
  PartRegistry registry;
  ASSERT_OK(registry.Register({Part(0), Part(1)}, "host:1", 0, 1000));
  EXPECT_EQ(*registry.Lookup({"a", 1}, 999 * kMs), "host:1");
  EXPECT_EQ(registry.Lookup({"a", 2}, 0).status().code(), Code::kNotFound);
  EXPECT_EQ(registry.Lookup({"b", 1}, 0).status().code(), Code::kNotFound);
  ASSERT_OK(registry.Register({Part(1)}, "host:1", 500 * kMs, 1000));
  EXPECT_EQ(registry.Lookup({"a", 0}, 1000 * kMs).status().code(), Code::kNotFound);
  EXPECT_EQ(*registry.Lookup({"a", 1}, 1000 * kMs), "host:1");
  EXPECT_EQ(registry.size(), 1u);
}

TEST(PartRegistry, SendsReadersWhereAPartWasWrittenLast) {
  int told = 0;
  SetLogSink([&told](LogLevel, const std::string&) { ++told; });
  PartRegistry registry;
  const auto at = [&](uint64_t now_ms) { return *registry.Lookup({"a", 0}, now_ms * kMs); };
  const auto tell = [&](const char* who, uint64_t newest, uint64_t now_ms) {
    ASSERT_OK(registry.Register({Part(0, newest)}, who, now_ms * kMs, 1000));
  };
  tell("old:1", 100, 0);
  tell("new:1", stream::kWrittenNow, 1);
  EXPECT_EQ(at(1), "new:1");
  tell("old:1", 100, 2);
  EXPECT_EQ(at(2), "new:1") << "the one that spoke last is the older";
  tell("new:1", 200, 3);  // its writer has ended
  tell("old:1", 100, 4);
  EXPECT_EQ(at(4), "new:1");
  EXPECT_EQ(told, 1);
  tell("old:1", 100, 2000);  // the new one has not registered for long
  EXPECT_EQ(at(2000), "old:1");
  SetLogSink(nullptr);
}

TEST(PartRegistry, TheLastRegistrationWinsAndOnlyItsDaemonRemovesIt) {
  PartRegistry registry;
  ASSERT_OK(registry.Register({Part(0)}, "old:1", 0, 1000));
  ASSERT_OK(registry.Register({Part(0)}, "new:1", 0, 1000));
  EXPECT_EQ(*registry.Lookup({"a", 0}, 0), "new:1");
  ASSERT_OK(registry.Register({Part(0)}, "old:1", 0, 0));
  EXPECT_EQ(*registry.Lookup({"a", 0}, 0), "new:1");
  ASSERT_OK(registry.Register({Part(0)}, "new:1", 0, 0));
  EXPECT_EQ(registry.Lookup({"a", 0}, 0).status().code(), Code::kNotFound);
}

TEST(PartRegistry, HasRoomForSoManyAndMakesItOfWhatIsOld) {
  PartRegistry registry(2);
  ASSERT_OK(registry.Register({Part(0), Part(1)}, "host:1", 0, 1000));
  EXPECT_EQ(registry.Register({Part(2)}, "host:1", 0, 1000).code(), Code::kNoSpace);
  EXPECT_OK(registry.Register({Part(0)}, "host:2", 0, 1000));
  EXPECT_OK(registry.Register({Part(2)}, "host:1", 1000 * kMs, 1000));
  EXPECT_EQ(registry.size(), 1u);
}

}  // namespace
}  // namespace quire::streamd::part_registry_test
