#include "quire/status.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/core/check.h"
#include "base/core/log_sink.h"
#include "base/core/random.h"
#include "base/threads/executor.h"

namespace quire::status_test {
namespace {

Result<std::string> Halve(int number) {
  if (number % 2 != 0) return Status(Code::kInvalidArgument, std::to_string(number) + " is odd");
  return std::to_string(number / 2);
}

Status HalveInto(int number, std::string* to) {
  QUIRE_ASSIGN_OR_RETURN(const std::string half, Halve(number));
  QUIRE_RETURN_IF_ERROR(Status());
  *to = half;
  return Status();
}

TEST(Status, SaysCodeAndSentence) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().ToString(), "ok");
  EXPECT_EQ(Status().message(), "");
  const Status full(Code::kNoSpace, "cannot write /a: full");
  EXPECT_FALSE(full.ok());
  EXPECT_EQ(full.code(), Code::kNoSpace);
  EXPECT_EQ(full.message(), "cannot write /a: full");
  EXPECT_EQ(full.ToString(), "no space: cannot write /a: full");
  EXPECT_EQ(Status(Code::kNotFound).ToString(), "not found");
}

// Else what failed could seem to have ended well, for want of memory to copy its status.
TEST(Status, IsCopiedWithoutMemory) {
  static_assert(std::is_nothrow_copy_constructible_v<Status>);
  static_assert(std::is_nothrow_copy_assignable_v<Status>);
  const Status full(Code::kNoSpace, "cannot write /a: full");
  const Status copy = full;
  EXPECT_EQ(&copy.message(), &full.message());
}

TEST(Status, ContextStandsBeforeTheSentence) {
  EXPECT_EQ(Status(Code::kIo, "write failed").WithContext("rank 3").ToString(),
            "input/output error: rank 3: write failed");
  EXPECT_EQ(Status(Code::kNotFound).WithContext("key k").ToString(), "not found: key k");
  EXPECT_TRUE(Status().WithContext("anything").ok());
}

TEST(Status, ShowsNoControlCharacterOfItsSentence) {
  const Status status(Code::kIo, "open /run\n\x1b[31m/\xc3\xa4");
  EXPECT_EQ(status.ToString(), "input/output error: open /run\\x0a\\x1b[31m/\xc3\xa4");
  EXPECT_EQ(status.WithContext("\x07").ToString(),
            "input/output error: \\x07: open /run\\x0a\\x1b[31m/\xc3\xa4");
}

TEST(Status, CodesKeepTheirNumbersAndHaveNames) {
  EXPECT_EQ(static_cast<int>(Code::kOk), 0);
  EXPECT_EQ(static_cast<int>(Code::kNotFound), 1);
  EXPECT_EQ(static_cast<int>(Code::kInvalidArgument), 2);
  EXPECT_EQ(static_cast<int>(Code::kReadOnly), 3);
  EXPECT_EQ(static_cast<int>(Code::kNoSpace), 4);
  EXPECT_EQ(static_cast<int>(Code::kIo), 5);
  EXPECT_EQ(static_cast<int>(Code::kCorruption), 6);
  EXPECT_EQ(static_cast<int>(Code::kBusy), 7);
  EXPECT_EQ(static_cast<int>(Code::kTimedOut), 8);
  EXPECT_EQ(static_cast<int>(Code::kPeerFailed), 9);
  EXPECT_EQ(static_cast<int>(Code::kOutOfMemory), 10);
  EXPECT_EQ(static_cast<int>(Code::kUnsupported), 11);
  std::vector<std::string> names;
  for (int code = 0; code <= 11; ++code) names.emplace_back(CodeName(static_cast<Code>(code)));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
  EXPECT_STREQ(CodeName(static_cast<Code>(12)), "unknown code");
}

TEST(Status, ResultsCarryAValueOrTheReasonForNone) {
  std::string half;
  EXPECT_TRUE(HalveInto(8, &half).ok());
  EXPECT_EQ(half, "4");
  const Status status = HalveInto(7, &half);
  EXPECT_EQ(status.ToString(), "invalid argument: 7 is odd");
  EXPECT_EQ(half, "4");
  EXPECT_EQ(Halve(6)->size(), 1u);
  EXPECT_EQ(*Halve(20), "10");
}

TEST(LogSink, ReceivesLinesWhileInstalled) {
  std::vector<std::string> lines;
  EXPECT_FALSE(base::LogEnabled());
  base::Log(LogLevel::kError, "into silence");
  SetLogSink([&lines](LogLevel level, const std::string& text) {
    lines.push_back(std::to_string(static_cast<int>(level)) + text);
  });
  EXPECT_TRUE(base::LogEnabled());
  base::Log(LogLevel::kWarning, " heard");
  base::Log(LogLevel::kError, " \x1b[2J\nquire error: forged");
  SetLogSink(nullptr);
  EXPECT_FALSE(base::LogEnabled());
  base::Log(LogLevel::kError, "into silence again");
  EXPECT_EQ(lines, (std::vector<std::string>{"1 heard", "0 \\x1b[2J\\x0aquire error: forged"}));
}

TEST(CheckDeathTest, NamesRankFileLineAndCondition) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int two = 2;
  QUIRE_CHECK(two == 2);
  EXPECT_DEATH(QUIRE_CHECK(two == 3), "broken invariant at .*status_test.cpp:[0-9]+: two == 3");
  EXPECT_DEATH(
      {
        base::SetCheckRank(5);
        QUIRE_CHECK(two == 3);
      },
      "broken invariant on rank 5 at ");
}

TEST(ThreadPool, RunsEveryJobBeforeItEnds) {
  std::atomic<int> sum{0};
  {
    const auto pool = base::NewThreadPool(3, "a-name-longer-than-the-kernel-takes").value();
    for (int i = 1; i <= 1000; ++i) pool->Schedule([&sum, i] { sum += i; });
    EXPECT_FALSE(pool->RunOne());
  }
  EXPECT_EQ(sum.load(), 500500);
}

TEST(ThreadPool, RunsJobsThatJobsSchedule) {
  std::atomic<int> runs{0};
  {
    const auto pool = base::NewThreadPool(2, "pool").value();
    auto* executor = pool.get();
    executor->Schedule([&runs, executor] {
      ++runs;
      executor->Schedule([&runs, executor] {
        ++runs;
        executor->Schedule([&runs] { ++runs; });
      });
    });
  }
  EXPECT_EQ(runs.load(), 3);
}

TEST(ThreadPool, RunsJobsBesideEachOther) {
  // Each job waits for the other: with one thread this would hang.
  std::atomic<int> arrived{0};
  {
    const auto pool = base::NewThreadPool(2, "pool").value();
    for (int i = 0; i < 2; ++i) {
      pool->Schedule([&arrived] {
        ++arrived;
        while (arrived < 2) std::this_thread::yield();
      });
    }
  }
  EXPECT_EQ(arrived.load(), 2);
}

TEST(ThreadPool, IsIdleWhenNoJobIsQueuedOrRuns) {
  const auto pool = base::NewThreadPool(2, "pool").value();
  std::atomic<int> runs{0};
  for (int i = 0; i < 100; ++i) {
    pool->WaitIdle();
    EXPECT_EQ(runs, 2 * i);
    pool->Schedule([&] {
      pool->Schedule([&] {
        std::this_thread::yield();
        ++runs;
      });
      ++runs;
    });
  }
  pool->WaitIdle();
  EXPECT_EQ(runs, 200);
}

TEST(ManualExecutor, RunsOneJobPerCallInOrder) {
  std::string order;
  const auto executor = base::NewManualExecutor();
  auto* queue = executor.get();
  EXPECT_FALSE(queue->RunOne());
  queue->Schedule([&order, queue] {
    order += 'a';
    queue->Schedule([&order] { order += 'c'; });
  });
  queue->Schedule([&order] { order += 'b'; });
  EXPECT_EQ(order, "");
  EXPECT_TRUE(queue->RunOne());
  EXPECT_EQ(order, "a");
  EXPECT_TRUE(queue->RunOne());
  EXPECT_TRUE(queue->RunOne());
  EXPECT_FALSE(queue->RunOne());
  EXPECT_EQ(order, "abc");
}

TEST(Random, RepeatsFromItsSeed) {
  base::Random first(42);
  base::Random second(42);
  base::Random other(43);
  EXPECT_EQ(first.Next(), 0xBDD732262FEB6E95u);
  EXPECT_EQ(second.Next(), 0xBDD732262FEB6E95u);
  EXPECT_NE(other.Next(), 0xBDD732262FEB6E95u);
  for (int i = 0; i < 1000; ++i) EXPECT_LT(first.Below(7), 7u);
  EXPECT_EQ(first.Below(0), 0u);
  EXPECT_TRUE(first.OneIn(1));
}

}  // namespace
}  // namespace quire::status_test
