#include "base/core/program_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <thread>

#include "base/core/log_sink.h"

namespace quire::base::program_call_test {
namespace {

using testing::HasSubstr;

template <typename Body>
Status Call(const Body& body) {
  return CallProgram([] { return std::string("the function"); }, [&]() -> Status {
    body();
    return Status();
  });
}

TEST(ProgramCall, AnExceptionOfAFunctionBecomesAStatus) {
  EXPECT_TRUE(Call([] {}).ok());
  EXPECT_EQ(Call([] { throw std::bad_alloc(); }).code(), Code::kOutOfMemory);
  const Status known = Call([] { throw std::length_error("too long"); });
  EXPECT_EQ(known.code(), Code::kInvalidArgument);
  EXPECT_THAT(known.message(), HasSubstr("the function threw an exception: too long"));
  const Status unknown = Call([] { throw 7; });
  EXPECT_EQ(unknown.code(), Code::kInvalidArgument);
  EXPECT_THAT(unknown.message(), HasSubstr("the function threw something"));
}

TEST(ProgramCall, AThreadIsInsideUntilTheOutermostCallEnds) {
  EXPECT_FALSE(InProgramCall());
  static_cast<void>(Call([] {
    static_cast<void>(Call([] { throw 7; }));
    EXPECT_TRUE(InProgramCall());
    std::thread([] { EXPECT_FALSE(InProgramCall()); }).join();
  }));
  EXPECT_FALSE(InProgramCall());
}

TEST(ProgramCall, ALogSinkMayThrow) {
  int lines = 0;
  bool inside = false;
  SetLogSink([&](LogLevel, const std::string&) {
    ++lines;
    inside = InProgramCall();
    throw std::runtime_error("the disk of the log is full");
  });
  // Not of a literal: that one catches everything.
  EXPECT_NO_THROW(Log(LogLevel::kError, std::string("a line")));
  EXPECT_NO_THROW(Log(LogLevel::kError, std::string("another")));
  SetLogSink({});
  EXPECT_EQ(lines, 2);
  EXPECT_TRUE(inside);
  EXPECT_FALSE(InProgramCall());
}

}  // namespace
}  // namespace quire::base::program_call_test
