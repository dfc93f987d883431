#include "base/printable.h"

#include <gtest/gtest.h>

namespace quire::base {
namespace {

TEST(Printable, ShowsWhatCanBeReadAndEscapesTheRest) {
  EXPECT_EQ(Printable("key 1~"), "key 1~");
  EXPECT_EQ(Printable(Slice("a\0\n\\\xff", 5)), "a\\x00\\x0a\\\\\\xff");
  EXPECT_EQ(Printable(""), "");
}

TEST(Printable, HexHasTwoDigitsForEachByte) {
  EXPECT_EQ(Hex(Slice("\0\x7f\xa5", 3)), "007fa5");
}

}  // namespace
}  // namespace quire::base
