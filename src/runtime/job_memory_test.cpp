// Background jobs whose work finds no memory: all ranks receive the error, none hangs, and no
// exception leaves a background thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/job.h"
#include "runtime/sim_ranks_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::runtime::job_memory_test {
namespace {

using testing::HasSubstr;

enum class Call { kAttach, kAdvance, kSend, kTakeNews, kReport, kTakeReports, kUndo, kFinish };

struct Case {
  friend void PrintTo(const Case& one, std::ostream* to) { *to << one.name; }

  const char* name;
  Call call;
  Code told = Code::kOutOfMemory;
};

// What happens on the ranks of a test.
struct Shared {
  Call call;
  int rank = 0;  // where it finds no memory
  std::atomic<int> undone{0};
  std::atomic<int> finished{0};
};

class HungryWork final : public JobWork {
 public:
  HungryWork(int rank, Shared* shared) : rank_(rank), shared_(*shared) {}
  int step_count() const override { return 2; }
  bool sends(int step) const override { return step == 1; }
  Result<State> Advance(int step) override {
    Eat(step == 0 ? Call::kAdvance : Call::kSend);
    if (shared_.call == Call::kUndo) return Status(Code::kNoSpace, "the disk is full");
    return State::kThrough;
  }
  std::string Report(int) override {
    Eat(Call::kReport);
    return {};
  }
  Result<std::string> TakeReports(int, const std::vector<std::string>&) override {
    Eat(Call::kTakeReports);
    return std::string();
  }
  void TakeDecision(int, const std::string&) override { Eat(Call::kTakeNews); }
  bool CanUndo(int) override { return true; }
  void Undo() override {
    ++shared_.undone;
    Eat(Call::kUndo);
  }
  void Attach(const std::weak_ptr<Job>&) override { Eat(Call::kAttach); }
  void Finish(const Status&) override {
    ++shared_.finished;
    Eat(Call::kFinish);
  }

 private:
  void Eat(Call call) const {
    if (call == shared_.call && rank_ == shared_.rank) throw std::bad_alloc();
  }

  const int rank_;
  Shared& shared_;
};

void RunRanks(int count, bool by_turns, uint64_t timeout_ms,
              const std::function<void(const std::shared_ptr<ContextState>&)>& program) {
  RunSimRanks({.rank_count = count, .by_turns = by_turns, .timeout_ms = timeout_ms},
              [&](const std::shared_ptr<ContextState>& context) {
                program(context);
                ASSERT_OK(context->exchange->Barrier());
              });
}

class JobMemory : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Calls, JobMemory,
                         testing::Values(Case{"Advance", Call::kAdvance},
                                         Case{"AdvanceThatSends", Call::kSend},
                                         Case{"TakeDecision", Call::kTakeNews},
                                         Case{"Report", Call::kReport},
                                         Case{"TakeReports", Call::kTakeReports},
                                         Case{"Undo", Call::kUndo, Code::kNoSpace},
                                         Case{"Finish", Call::kFinish, Code::kOk}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(JobMemory, AMissingAllocationEndsTheJobAlikeOnAllRanks) {
  for (const bool by_turns : {true, false}) {
    for (int count = 1; count <= 3; ++count) {
      for (int rank = 0; rank < count; ++rank) {
        if (rank > 0 && GetParam().call == Call::kTakeReports) break;  // rank 0 alone takes them
        Shared shared;
        shared.call = GetParam().call;
        shared.rank = rank;
        RunRanks(count, by_turns, 60'000, [&](const std::shared_ptr<ContextState>& context) {
          const auto job = Job::Start(context, context->TakeNumber(), "the test",
                                      std::make_unique<HungryWork>(context->rank(), &shared));
          const Status told = job->Wait();
          EXPECT_EQ(told.code(), GetParam().told) << told.ToString();
          if (told.code() != Code::kOutOfMemory) return;
          EXPECT_THAT(told.message(), HasSubstr("an allocation failed"));
          if (count > 1 && GetParam().call != Call::kTakeReports) {
            EXPECT_THAT(told.message(), HasSubstr("rank " + std::to_string(rank) + ": "));
          }
        });
        EXPECT_EQ(shared.finished, count);
        EXPECT_EQ(shared.undone, GetParam().told == Code::kOk ? 0 : count);
        ASSERT_FALSE(HasFailure()) << "rank " << rank << " of " << count;
      }
    }
  }
}

// Refuses one job, as one that finds no memory to queue it.
class HungryExecutor final : public base::Executor {
 public:
  explicit HungryExecutor(std::shared_ptr<base::Executor> base) : base_(std::move(base)) {}
  void Starve() { starved_ = true; }
  void Schedule(std::function<void()> job) override {
    if (starved_.exchange(false)) throw std::bad_alloc();
    base_->Schedule(std::move(job));
  }
  bool RunOne() override { return base_->RunOne(); }
  void WaitIdle() override { base_->WaitIdle(); }
  int thread_count() const override { return base_->thread_count(); }

 private:
  const std::shared_ptr<base::Executor> base_;
  std::atomic<bool> starved_{false};
};

// Its last step publishes on rank 0; a rank has no memory to report that step.
class PublishingWork final : public JobWork {
 public:
  PublishingWork(int rank, HungryExecutor* progress_queue)
      : rank_(rank), errands_(progress_queue) {}
  int step_count() const override { return 2; }
  Result<State> Advance(int step) override {
    if (rank_ == 0) published_ = step == 1;
    return State::kThrough;
  }
  std::string Report(int step) override {
    if (step == 1 && errands_ != nullptr) errands_->Starve();
    return {};
  }
  Status AfterFailure(const Status& why) const override { return published_ ? Status() : why; }

 private:
  const int rank_;
  HungryExecutor* const errands_;
  bool published_ = false;
};

TEST(JobReport, AReportWithoutMemoryLeavesTheOutcomeToRankZero) {
  for (int count = 2; count <= 3; ++count) {
    RunRanks(count, false, 60'000, [&](const std::shared_ptr<ContextState>& context) {
      const bool starved = context->rank() == count - 1;
      const auto hungry = std::make_shared<HungryExecutor>(context->blocking_executor);
      context->progress_queue = std::make_unique<ProgressQueue>(context->exchange.get(), hungry);
      const auto job = Job::Start(
          context, context->TakeNumber(), "the test",
          std::make_unique<PublishingWork>(context->rank(), starved ? hungry.get() : nullptr));
      EXPECT_OK(job->Wait());
    });
  }
}

// The work releases its lock at once, and other ranks learn that this rank gave it up.
TEST(JobStart, WithoutMemoryEndsTheWorkAtOnce) {
  for (int count = 1; count <= 2; ++count) {
    Shared shared;
    shared.call = Call::kAttach;
    shared.rank = count - 1;
    RunRanks(count, false, 3000, [&](const std::shared_ptr<ContextState>& context) {
      auto work = std::make_unique<HungryWork>(context->rank(), &shared);
      if (context->rank() == shared.rank) {
        EXPECT_THROW(Job::Start(context, context->TakeNumber(), "the test", std::move(work)),
                     std::bad_alloc);
        EXPECT_GE(shared.finished, 1);
        while (shared.finished < count) std::this_thread::yield();
      } else {
        const auto job = Job::Start(context, context->TakeNumber(), "the test", std::move(work));
        Status told = Status(Code::kTimedOut, "");
        while (told.code() == Code::kTimedOut) told = job->Wait();
        EXPECT_EQ(told.code(), Code::kPeerFailed) << told.ToString();
      }
    });
    EXPECT_EQ(shared.finished, count);
  }
}

}  // namespace
}  // namespace quire::runtime::job_memory_test
