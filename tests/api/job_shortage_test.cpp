// A background job fails, and the n-th allocation after that fails too, for n = 0, 1, ...: no rank
// receives kOk for the job, and none waits for ever, or for so long that a collective call behind
// the job fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/core/log_sink.h"
#include "base/core/out_of_memory.h"
#include "child_process.h"
#include "failing_allocations.h"
#include "runtime/job.h"
#include "runtime/sim_ranks_testing.h"

namespace quire::runtime {
namespace {

using test::InProcess;
using test::kRan;
using test::kStopped;
using test::kTooFar;
using test::kWrong;
using test::Outcome;

constexpr int kRanksMax = 3;

// Fails on one rank in its second step, in which the job has begun on all. Memory is short from
// then on.
class FailingWork final : public JobWork {
 public:
  FailingWork(bool fails, int64_t allocation, int64_t in_a_row = 1)
      : fails_(fails), allocation_(allocation), in_a_row_(in_a_row) {}
  int step_count() const override { return 2; }
  Result<State> Advance(int step) override {
    if (!fails_ || step == 0) return State::kThrough;
    test::FailAllocations(allocation_, in_a_row_);
    return full_;
  }
  bool CanUndo(int /*step*/) override { return true; }
  Result<std::string> TakeReports(int /*step*/,
                                  const std::vector<std::string>& /*notes*/) override {
    return std::string("news that are longer than what a string has room for by itself");
  }

 private:
  const bool fails_;
  const int64_t allocation_;
  const int64_t in_a_row_;
  const Status full_{Code::kNoSpace, "the disk is full"};
};

Outcome RunWithout(int ranks, int failing_rank, int64_t allocation, int64_t in_a_row) {
  std::array<Code, kRanksMax> ended;
  ended.fill(Code::kNoSpace);
  std::array<Code, kRanksMax> next;
  next.fill(Code::kOk);
  bool first = true;  // the ranks run one at a time
  bool failed = false;
  RunSimRanks({.rank_count = ranks, .timeout_ms = 20'000},
              [&](const std::shared_ptr<ContextState>& context) {
                const int rank = context->rank();
                const auto job = Job::Start(
                    context, context->TakeNumber(), "the test",
                    std::make_unique<FailingWork>(rank == failing_rank, allocation, in_a_row));
                const Status status = base::OrOutOfMemory([&] { return job->Wait(); });
                ended[static_cast<size_t>(rank)] = status.code();
                // There is memory again from the first rank's end on: a context needs some to end.
                if (std::exchange(first, false)) failed = test::AllocationFailed();
                next[static_cast<size_t>(rank)] = context->exchange->Agree(Status()).code();
              });
  if (!failed) return kTooFar;
  const auto good = [](Code code) {
    return code == Code::kNoSpace || code == Code::kOutOfMemory || code == Code::kPeerFailed;
  };
  const auto is_ok = [](Code code) { return code == Code::kOk; };
  if (std::all_of(ended.begin(), ended.begin() + ranks, good) &&
      std::all_of(next.begin(), next.begin() + ranks, is_ok)) {
    return kRan;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    std::fprintf(stderr, "rank %d: %s, then %s\n", rank, CodeName(ended[static_cast<size_t>(rank)]),
                 CodeName(next[static_cast<size_t>(rank)]));
  }
  return kWrong;
}

// Log lines are written in places that must not throw: in destructors, and when memory has just run
// out.
TEST(LogShortage, ALineThatFindsNoMemoryIsDropped) {
  const char* const line = "a line that is longer than what a string has room for by itself";
  int lines = 0;
  SetLogSink([&lines](LogLevel, const std::string&) { ++lines; });
  base::Log(LogLevel::kError, line);
  test::FailAllAllocations();
  base::Log(LogLevel::kError, line);
  const uint64_t failures = test::AllowAllocations();
  SetLogSink(nullptr);
  EXPECT_EQ(lines, 1);
  EXPECT_GT(failures, 0u);
}

void ExpectNeverEndsWell(int ranks, int failing_rank, int64_t in_a_row) {
  int64_t allocation = 0;
  for (Outcome outcome = kRan; outcome != kTooFar; ++allocation) {
    outcome = InProcess([&] { return RunWithout(ranks, failing_rank, allocation, in_a_row); });
    ASSERT_NE(outcome, kWrong) << ranks << " ranks, of which " << failing_rank
                               << " fails; allocation " << allocation << ", " << in_a_row;
    EXPECT_NE(outcome, kStopped) << ranks << " ranks, of which " << failing_rank
                                 << " fails; allocation " << allocation << ", " << in_a_row;
  }
  EXPECT_GT(allocation, 5) << "so few allocations";
}

TEST(JobShortage, AJobThatFailedNeverEndsWell) {
  for (int ranks = 1; ranks <= kRanksMax; ++ranks) {
    for (int rank = 0; rank < ranks; ++rank) ExpectNeverEndsWell(ranks, rank, 1);
  }
}

// Also what the end of the job would need fails, and what its next attempts would need.
TEST(JobShortage, AShortageThatLastsForAWhileStopsNoProgram) {
  for (int64_t in_a_row : {2, 3, 5, 10, 30}) ExpectNeverEndsWell(1, 0, in_a_row);
}

// Each allocation from the n-th on fails until the start returns: also what the job would need to
// be stopped.
TEST(JobShortage, AJobThatFindsNoMemoryToStartStopsNoProgram) {
  bool failed = true;
  for (int64_t n = 0; failed; ++n) {
    RunSimRanks({.rank_count = 1, .timeout_ms = 20'000},
                [&](const std::shared_ptr<ContextState>& context) {
                  const uint32_t number = context->TakeNumber();
                  auto work = std::make_unique<FailingWork>(false, 0);
                  std::shared_ptr<Job> job;
                  test::FailAllocationsHereFrom(n);
                  const Status started = base::OrOutOfMemory([&] {
                    job = Job::Start(context, number, "the test", std::move(work));
                    return Status();
                  });
                  failed = test::AllocationFailed();
                  EXPECT_EQ(started.code(), job == nullptr ? Code::kOutOfMemory : Code::kOk) << n;
                  EXPECT_TRUE(failed || job != nullptr) << n;
                });
    ASSERT_FALSE(HasFailure()) << n;
  }
}

// Rank 1 finds no memory for one thing while it waits for a job that ends well.
Outcome WaitWithout(int64_t allocation) {
  std::array<Code, 2> next;
  bool failed = false;
  RunSimRanks({.rank_count = 2, .timeout_ms = 20'000},
              [&](const std::shared_ptr<ContextState>& context) {
                const int rank = context->rank();
                const auto job = Job::Start(context, context->TakeNumber(), "the test",
                                            std::make_unique<FailingWork>(false, 0));
                if (rank == 1) test::FailAllocationHere(allocation);
                static_cast<void>(base::OrOutOfMemory([&] { return job->Wait(); }));
                if (rank == 1) failed = test::AllocationFailed();
                next[static_cast<size_t>(rank)] = context->exchange->Agree(Status()).code();
              });
  if (!failed) return kTooFar;
  if (next[0] == Code::kOk && next[1] == Code::kOk) return kRan;
  std::fprintf(stderr, "then %s and %s\n", CodeName(next[0]), CodeName(next[1]));
  return kWrong;
}

TEST(JobShortage, ARankLearnsInTimeThatAJobEnded) {
  int64_t allocation = 0;
  for (Outcome outcome = kRan; outcome != kTooFar; ++allocation) {
    outcome = InProcess([&] { return WaitWithout(allocation); });
    ASSERT_NE(outcome, kWrong) << "allocation " << allocation;
    EXPECT_NE(outcome, kStopped) << "allocation " << allocation;
  }
  EXPECT_GT(allocation, 5) << "so few allocations";
}

}  // namespace
}  // namespace quire::runtime
