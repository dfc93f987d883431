#include "api/compat/papyruskv_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "io/files/file_system.h"

namespace quire::compat::papyruskv_names_test {
namespace {

std::string Mapped(Slice name) {
  const Result<std::string> mapped = NameInRepository(name);
  return mapped.ok() ? *mapped : mapped.status().ToString();
}

TEST(PapyruskvNames, HarmlessOnesStayAsTheyAre) {
  for (const char* name : {"mydb", "TEST_DB", "kmers.v2", "a-b", "_", "x_h", "_x2"}) {
    EXPECT_EQ(Mapped(name), name);
  }
}

TEST(PapyruskvNames, OtherBytesAreWrittenInHexadecimal) {
  EXPECT_EQ(Mapped("a/b c"), "a_x2Fb_x20c");
  EXPECT_EQ(Mapped("../up"), "_x2E._x2Fup");
  EXPECT_EQ(Mapped("-f"), "_x2Df");
  EXPECT_EQ(Mapped("\xC3\xA9t\xC3\xA9"), "_xC3_xA9t_xC3_xA9");
}

TEST(PapyruskvNames, ANameThatLooksMappedIsMappedAgain) {
  EXPECT_EQ(Mapped("a_x2Fb"), "a_x5Fx2Fb");
  EXPECT_EQ(Mapped("_h"), "_x5Fh");
}

TEST(PapyruskvNames, AllThatAreAllowedMapToDifferentAllowedOnes) {
  std::set<std::string> seen;
  const std::string alphabet = "_xh/.2FA-";
  int count = 0;
  for (char a : alphabet) {
    for (char b : alphabet) {
      for (char c : alphabet) {
        for (char d : alphabet) {
          const std::string mapped = Mapped(std::string{a, b, c, d});
          EXPECT_TRUE(io::CheckName(mapped).ok()) << mapped;
          seen.insert(mapped);
          ++count;
        }
      }
    }
  }
  EXPECT_EQ(static_cast<int>(seen.size()), count);
}

TEST(PapyruskvNames, LongOnesAreHashedAndStayDifferent) {
  const std::string one = Mapped(std::string(254, '/') + "a");
  const std::string other = Mapped(std::string(254, '/') + "b");
  EXPECT_EQ(one.size(), 255u);
  EXPECT_NE(one, other);
  EXPECT_TRUE(io::CheckName(one).ok()) << one;
  EXPECT_EQ(Mapped(std::string(255, 'a')), std::string(255, 'a'));
}

TEST(PapyruskvNames, NoneAndTooLongOnesAreRefused) {
  EXPECT_EQ(NameInRepository("").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(NameInRepository(std::string(256, 'a')).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace quire::compat::papyruskv_names_test
