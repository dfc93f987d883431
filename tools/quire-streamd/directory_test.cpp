#include "tools/quire-streamd/directory.h"

#include <gtest/gtest.h>

#include "tests/support/status_asserts.h"

namespace quire::streamd {
namespace {

constexpr uint64_t kMs = 1'000'000;

TEST(Directory, KnowsWhereAPartIsUntilItIsNotToldAnyMore) {
  Directory directory;
  ASSERT_OK(directory.Register({{"a", 0}, {"a", 1}}, "host:1", 0, 1000));
  EXPECT_EQ(*directory.Lookup({"a", 1}, 999 * kMs), "host:1");
  EXPECT_EQ(directory.Lookup({"a", 2}, 0).status().code(), Code::kNotFound);
  EXPECT_EQ(directory.Lookup({"b", 1}, 0).status().code(), Code::kNotFound);
  ASSERT_OK(directory.Register({{"a", 1}}, "host:1", 500 * kMs, 1000));
  EXPECT_EQ(directory.Lookup({"a", 0}, 1000 * kMs).status().code(), Code::kNotFound);
  EXPECT_EQ(*directory.Lookup({"a", 1}, 1000 * kMs), "host:1");
  EXPECT_EQ(directory.size(), 1u);
}

TEST(Directory, BelievesWhoSpokeLastAndForgetsForNobodyElse) {
  Directory directory;
  ASSERT_OK(directory.Register({{"a", 0}}, "old:1", 0, 1000));
  ASSERT_OK(directory.Register({{"a", 0}}, "new:1", 0, 1000));
  EXPECT_EQ(*directory.Lookup({"a", 0}, 0), "new:1");
  ASSERT_OK(directory.Register({{"a", 0}}, "old:1", 0, 0));
  EXPECT_EQ(*directory.Lookup({"a", 0}, 0), "new:1");
  ASSERT_OK(directory.Register({{"a", 0}}, "new:1", 0, 0));
  EXPECT_EQ(directory.Lookup({"a", 0}, 0).status().code(), Code::kNotFound);
}

TEST(Directory, HasRoomForSoManyAndMakesItOfWhatIsOld) {
  Directory directory(2);
  ASSERT_OK(directory.Register({{"a", 0}, {"a", 1}}, "host:1", 0, 1000));
  EXPECT_EQ(directory.Register({{"a", 2}}, "host:1", 0, 1000).code(), Code::kNoSpace);
  EXPECT_OK(directory.Register({{"a", 0}}, "host:2", 0, 1000));
  EXPECT_OK(directory.Register({{"a", 2}}, "host:1", 1000 * kMs, 1000));
  EXPECT_EQ(directory.size(), 1u);
}

}  // namespace
}  // namespace quire::streamd
