#include "api/compat/papyruskv_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "quire/log.h"

namespace quire::compat::papyruskv_session_test {
namespace {

class PapyruskvCodes : public testing::Test {
 protected:
  void SetUp() override {
    SetLogSink([this](LogLevel, const std::string& text) { lines_.push_back(text); });
  }
  void TearDown() override { SetLogSink(nullptr); }

  std::vector<std::string> lines_;
};

TEST_F(PapyruskvCodes, AnAbsentKeyIsAnAnswerAndNothingIsLogged) {
  EXPECT_EQ(CodeOf("papyruskv_get", Status()), PAPYRUSKV_OK);
  EXPECT_EQ(CodeOf("papyruskv_get", Status(Code::kNotFound)), PAPYRUSKV_NOT_FOUND);
  EXPECT_THAT(lines_, testing::IsEmpty());
}

// A directory, a database or a checkpoint that is not there has a sentence.
TEST_F(PapyruskvCodes, AnyOtherAbsenceIsLoggedWithTheCall) {
  EXPECT_EQ(CodeOf("papyruskv_init", Status(Code::kNotFound, "there is no /scratch")),
            PAPYRUSKV_NOT_FOUND);
  EXPECT_THAT(lines_, testing::ElementsAre(testing::AllOf(testing::HasSubstr("papyruskv_init"),
                                                          testing::HasSubstr("/scratch"))));
}

TEST_F(PapyruskvCodes, AFailureIsLoggedWithTheCall) {
  EXPECT_EQ(CodeOf("papyruskv_put", Status(Code::kNoSpace, "the disk is full")),
            PAPYRUSKV_NO_SPACE);
  EXPECT_THAT(lines_, testing::ElementsAre(testing::HasSubstr("papyruskv_put")));
}

}  // namespace
}  // namespace quire::compat::papyruskv_session_test
