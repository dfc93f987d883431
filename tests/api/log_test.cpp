// Failures that no call can return reach the program's callback, in C++ and in C, or, as
// QUIRE_LOG says, standard error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "quire/database.h"
#include "quire/log.h"
#include "quire/quire.h"
#include "tests/support/temp_directory.h"

namespace quire {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kFailure = "ended without Close";

class Log : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // the library has threads
    ::unsetenv("QUIRE_LOG");
  }
  void TearDown() override { SetLogSink(nullptr); }

  // Destroys a database whose pairs are in memory only, while files may not grow: the pairs cannot
  // be written, and a destructor has no caller to which it can report this.
  static void FailInADestructor(const std::string& directory) {
    const auto context = Context::OpenSerial(directory + "/repository", {});
    ASSERT_TRUE(context.ok()) << context.status().ToString();
    DatabaseOptions options;
    options.storage.wal = WalMode::kOff;
    auto database = (*context)->Open("db", options);
    ASSERT_TRUE(database.ok()) << database.status().ToString();
    std::mt19937_64 random(1);
    for (int i = 0; i < 300; ++i) {
      std::string value;
      while (value.size() < 1000) value += std::to_string(random());
      ASSERT_TRUE((*database)->Put(std::to_string(i), value).ok());
    }
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit before = {};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small = {64 << 10, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    database->reset();
    ::setrlimit(RLIMIT_FSIZE, &before);
  }

  static void FailWithLevel(const std::string& directory, const char* level) {
    ::setenv("QUIRE_LOG", level, 1);
    FailInADestructor(directory);
    std::exit(0);
  }

  test::TempDirectory directory_;
};

struct Lines {
  std::mutex mutex;
  std::vector<std::string> errors;
  void Add(int level, const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (level == QUIRE_LOG_ERROR) errors.push_back(text);
  }
};

TEST_F(Log, FailuresInDestructorsReachTheProgramsSink) {
  Lines lines;
  SetLogSink([&](LogLevel level, const std::string& text) {
    lines.Add(static_cast<int>(level), text);
  });
  FailInADestructor(directory_.path());
  EXPECT_THAT(lines.errors, Contains(HasSubstr(kFailure)));
  EXPECT_THAT(lines.errors, Contains(HasSubstr("database db")));
}

TEST_F(Log, FailuresInDestructorsReachTheSinkOfAProgramInC) {
  Lines lines;
  quire_set_log(
      [](int level, const char* text, void* user) { static_cast<Lines*>(user)->Add(level, text); },
      &lines);
  FailInADestructor(directory_.path());
  EXPECT_THAT(lines.errors, Contains(HasSubstr(kFailure)));
  lines.errors.clear();
  quire_set_log(nullptr, nullptr);
  const test::TempDirectory second;
  FailInADestructor(second.path());
  EXPECT_TRUE(lines.errors.empty()) << lines.errors[0];
}

TEST_F(Log, TheEnvironmentAsksForStandardError) {
  EXPECT_EXIT(FailWithLevel(directory_.path(), "error"), testing::ExitedWithCode(0),
              HasSubstr(std::string("quire error: database db ") + kFailure));
}

TEST_F(Log, WithoutItNothingIsPrinted) {
  EXPECT_EXIT(FailWithLevel(directory_.path(), ""), testing::ExitedWithCode(0),
              Not(HasSubstr(kFailure)));
}

TEST_F(Log, AProgramsOwnSinkComesFirst) {
  const auto with_own_sink = [this] {
    SetLogSink([](LogLevel, const std::string&) {});
    FailWithLevel(directory_.path(), "debug");
  };
  EXPECT_EXIT(with_own_sink(), testing::ExitedWithCode(0), Not(HasSubstr(kFailure)));
}

TEST_F(Log, AnUnknownLevelIsRefused) {
  ::setenv("QUIRE_LOG", "loud", 1);
  const auto context = Context::OpenSerial(directory_ / "repository", {});
  ::unsetenv("QUIRE_LOG");
  EXPECT_EQ(context.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(context.status().message(), HasSubstr("QUIRE_LOG is \"loud\""));
}

}  // namespace
}  // namespace quire
