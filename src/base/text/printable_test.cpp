#include "base/text/printable.h"

#include <gtest/gtest.h>

namespace quire::base::printable_test {
namespace {

TEST(Printable, ShowsWhatCanBeReadAndEscapesTheRest) {
  EXPECT_EQ(Printable("key 1~"), "key 1~");
  EXPECT_EQ(Printable(Slice("a\0\n\\\xff", 5)), "a\\x00\\x0a\\\\\\xff");
  EXPECT_EQ(Printable(""), "");
}

TEST(Legible, KeepsTextsAndEscapesWhatATerminalObeys) {
  EXPECT_EQ(Legible("run 7/\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 \\x"),
            "run 7/\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 \\x");
  EXPECT_EQ(Legible(Slice("a\0\n\r\x1b[31m\x7f", 10)),
            "a\\x00\\x0a\\x0d\\x1b[31m\\x7f");
  EXPECT_EQ(Legible("\xc2\x9b"
                    "31m"),
            "\\xc2\\x9b31m") << "a control character of two bytes";
  EXPECT_EQ(Legible(""), "");
}

TEST(Legible, EscapesWhatIsNoUtf8ByteByByte) {
  EXPECT_EQ(Legible("\x9b"
                    "31m"),
            "\\x9b31m");
  EXPECT_EQ(Legible("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(Legible("\xc3("), "\\xc3(") << "what follows a half of a character is kept";
  EXPECT_EQ(Legible("\xc0\x9b"), "\\xc0\\x9b") << "ESC in more bytes than it takes";
  EXPECT_EQ(Legible("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");
  EXPECT_EQ(Legible("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(Legible("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(Legible, LeavesWhatIsLegibleAsItIs) {
  const std::string once = Legible("\x1b]0;owned\x07 \xc2\x85 \xe9");
  EXPECT_EQ(Legible(once), once);
}

TEST(Printable, HexHasTwoDigitsForEachByte) {
  EXPECT_EQ(Hex(Slice("\0\x7f\xa5", 3)), "007fa5");
}

}  // namespace
}  // namespace quire::base::printable_test
