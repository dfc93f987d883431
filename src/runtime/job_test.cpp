// Background jobs: steps in order on all ranks, a failure of any rank on all alike, no rank hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/job.h"
#include "runtime/sim_ranks_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::runtime::job_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kTimeoutMs = 2000;

// The actions of the ranks of a test, visible to all.
struct Shared {
  std::atomic<int> in_step[3] = {};
  std::atomic<int> finished{0};
  std::atomic<int> told{0};
  std::vector<std::string> notes;
  int failing_rank = -1;
  int failing_step = 1;
};

class StepWork final : public JobWork {
 public:
  StepWork(int rank, int size, Shared* shared) : rank_(rank), size_(size), shared_(*shared) {}
  int step_count() const override { return 3; }
  bool sends(int step) const override { return step == 1; }
  Result<State> Advance(int step) override {
    if (calls_++ < 3) return State::kAgain;
    calls_ = 0;
    bytes_done += 10;
    if (step > 0) {
      EXPECT_EQ(shared_.in_step[step - 1].load(), size_);
    }
    ++shared_.in_step[step];
    if (rank_ == shared_.failing_rank && step == shared_.failing_step) {
      return Status(Code::kNoSpace, "the disk is full");
    }
    return State::kThrough;
  }
  std::string Report(int step) override {
    return std::to_string(rank_) + "/" + std::to_string(step);
  }
  Result<std::string> TakeReports(int step, const std::vector<std::string>& reports) override {
    EXPECT_EQ(rank_, 0);
    if (step == 1) shared_.notes = reports;
    return "after " + std::to_string(step);
  }
  void TakeDecision(int step, const std::string& news) override {
    EXPECT_EQ(news, "after " + std::to_string(step - 1));
    ++shared_.told;
  }
  void Finish(const Status&) override { ++shared_.finished; }

 private:
  const int rank_;
  const int size_;
  Shared& shared_;
  int calls_ = 0;
};

class Jobs : public testing::TestWithParam<bool> {
 protected:
  void Run(int count, const std::function<void(const std::shared_ptr<ContextState>&)>& program) {
    RunSimRanks({.rank_count = count, .by_turns = GetParam(), .timeout_ms = kTimeoutMs}, program);
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, Jobs, testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Seeded" : "Threads"; });

TEST_P(Jobs, GoThroughTheirStepsTogether) {
  for (int count = 1; count <= 4; ++count) {
    Shared shared;
    Run(count, [&](const std::shared_ptr<ContextState>& context) {
      const int rank = context->rank();
      const auto job = Job::Start(context, context->TakeNumber(), "the test",
                                  std::make_unique<StepWork>(rank, count, &shared));
      ASSERT_OK(job->Wait());
      EXPECT_TRUE(job->Ready());
      EXPECT_EQ(job->Progress().bytes_done, 30u);
      ASSERT_OK(job->Wait());
      ASSERT_OK(context->exchange->Barrier());
    });
    EXPECT_EQ(shared.finished.load(), count);
    EXPECT_EQ(shared.told.load(), 2 * count);
    ASSERT_EQ(shared.notes.size(), static_cast<size_t>(count));
    EXPECT_EQ(shared.notes.back(), std::to_string(count - 1) + "/1");
  }
}

TEST_P(Jobs, EndOnAllRanksWithTheFailureOfOne) {
  for (const int failing : {0, 1, 2}) {
    Shared shared;
    shared.failing_rank = failing;
    Run(3, [&](const std::shared_ptr<ContextState>& context) {
      const auto job = Job::Start(context, context->TakeNumber(), "the test",
                                  std::make_unique<StepWork>(context->rank(), 3, &shared));
      const Status status = job->Wait();
      EXPECT_EQ(status.code(), Code::kNoSpace);
      EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(failing)));
      EXPECT_THAT(status.message(), HasSubstr("the disk is full"));
      ASSERT_OK(context->exchange->Barrier());
    });
    EXPECT_EQ(shared.finished.load(), 3);
    EXPECT_EQ(shared.in_step[2].load(), 0);
  }
}

TEST_P(Jobs, GoOnWithoutTheirHandleAndBesideEachOther) {
  Shared first;
  Shared second;
  Run(2, [&](const std::shared_ptr<ContextState>& context) {
    Job::Start(context, context->TakeNumber(), "the first",
               std::make_unique<StepWork>(context->rank(), 2, &first));
    const auto job = Job::Start(context, context->TakeNumber(), "the second",
                                std::make_unique<StepWork>(context->rank(), 2, &second));
    ASSERT_OK(job->Wait());
    for (const std::shared_ptr<Job>& other : context->jobs) ASSERT_OK(other->Wait());
    ASSERT_OK(context->exchange->Barrier());
  });
  EXPECT_EQ(first.finished.load(), 2);
  EXPECT_EQ(second.finished.load(), 2);
}

// Waits for ever, as a rank that is busy for long.
class StuckWork final : public JobWork {
 public:
  int step_count() const override { return 1; }
  Result<State> Advance(int) override { return State::kWaiting; }
};

// A job that rank `stuck` never gets through, and the others do at once.
std::shared_ptr<Job> StartStuck(const std::shared_ptr<ContextState>& context, int stuck,
                                Shared* shared) {
  std::unique_ptr<JobWork> work = std::make_unique<StuckWork>();
  if (context->rank() != stuck) work = std::make_unique<StepWork>(0, 0, shared);
  return Job::Start(context, context->TakeNumber(), "the test", std::move(work));
}

TEST_P(Jobs, EndWhenARankDies) {
  for (const int dying : {0, 1}) {
    Run(2, [&](const std::shared_ptr<ContextState>& context) {
      Shared shared;
      const auto job = StartStuck(context, dying, &shared);
      if (context->rank() == dying) return;  // its transport ends: to the other it is dead
      const Status status = job->Wait();
      EXPECT_EQ(status.code(), Code::kPeerFailed) << status.ToString();
    });
  }
}

// A program that computes, and looks now and then.
TEST_P(Jobs, EndWhenARankDiesAndTheOthersOnlyPoll) {
  for (const int dying : {0, 1}) {
    Run(2, [&](const std::shared_ptr<ContextState>& context) {
      Shared shared;
      const auto job = StartStuck(context, dying, &shared);
      if (context->rank() == dying) return;
      while (!job->Ready()) std::this_thread::yield();
      EXPECT_EQ(job->Wait().code(), Code::kPeerFailed) << job->Wait().ToString();
    });
  }
}

// It lives and answers, but not for this job.
TEST_P(Jobs, EndWhereARankHasGivenThemUp) {
  for (const int leaving : {0, 1}) {
    std::atomic<bool> ended{false};
    Shared shared;
    Run(2, [&](const std::shared_ptr<ContextState>& context) {
      const auto job = StartStuck(context, leaving, &shared);
      if (context->rank() == leaving) {
        job->Stop();
        while (!ended) context->exchange->Progress();
        return;
      }
      const Status status = job->Wait();
      EXPECT_EQ(status.code(), Code::kPeerFailed) << status.ToString();
      EXPECT_THAT(status.message(),
                  HasSubstr("rank " + std::to_string(leaving) + " has given it up"));
      ended = true;
    });
  }
}

// A job that cannot end well ends on all ranks, though no program waits and all ranks live.
TEST_P(Jobs, EndWhereARankHasGivenThemUpAndTheOthersOnlyPoll) {
  constexpr int kCount = 3;
  for (const int leaving : {0, 1, 2}) {
    std::atomic<int> ended{0};
    Shared shared;
    Run(kCount, [&](const std::shared_ptr<ContextState>& context) {
      const auto job = StartStuck(context, leaving, &shared);
      io::Clock& clock = context->exchange->transport().clock();
      const uint64_t begin_ns = clock.NowNs();
      if (context->rank() == leaving) job->Stop();
      while (!job->Ready() && clock.NowNs() - begin_ns < 20 * kTimeoutMs * kNsPerMs) {
        clock.SleepNs(10 * kNsPerMs);
      }
      EXPECT_TRUE(job->Ready()) << "rank " << context->rank() << " where " << leaving << " left";
      if (context->rank() != leaving && job->Ready()) {
        EXPECT_EQ(job->Wait().code(), Code::kPeerFailed) << job->Wait().ToString();
      }
      ++ended;
      while (ended < kCount) {
        context->exchange->Progress();
        clock.SleepNs(10 * kNsPerMs);
      }
    });
  }
}

// Rank 0 alone can find out, and its program computes.
TEST_P(Jobs, EndWhereARankHasGivenThemUpAndRankZeroDoesNotLook) {
  constexpr int kCount = 3;
  std::atomic<int> ended{1};  // rank 0 waits for none
  Shared shared;
  Run(kCount, [&](const std::shared_ptr<ContextState>& context) {
    const auto job = StartStuck(context, 1, &shared);
    io::Clock& clock = context->exchange->transport().clock();
    const uint64_t begin_ns = clock.NowNs();
    if (context->rank() == 1) job->Stop();
    while (context->rank() == 2 && !job->Ready() &&
           clock.NowNs() - begin_ns < 20 * kTimeoutMs * kNsPerMs) {
      clock.SleepNs(10 * kNsPerMs);
    }
    EXPECT_TRUE(context->rank() != 2 || job->Ready());
    if (context->rank() != 0) ++ended;
    while (ended < kCount) {
      context->Progress();
      while (context->manual_background && context->blocking_executor->RunOne()) {
      }
      clock.SleepNs(10 * kNsPerMs);
    }
  });
}

// There is no room to send the news: rank 1 receives them when it asks.
class LostNews : public Jobs {
 protected:
  void LoseNews(bool only_polls);
};

INSTANTIATE_TEST_SUITE_P(Modes, LostNews, testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Seeded" : "Threads"; });

void LostNews::LoseNews(bool only_polls) {
  std::atomic<bool> filled{false};
  std::atomic<bool> ended{false};
  Shared shared;
  Run(2, [&](const std::shared_ptr<ContextState>& context) {
    comm::Exchange& exchange = *context->exchange;
    if (context->rank() == 0) {
      // Rank 1 has no service for this: it fills the window for good.
      const std::string body(5 << 20, 'x');
      EXPECT_OK(exchange.StartThen(1, 4711 << 8, {}, body, [](const comm::Outcome&) {}));
      filled = true;
    }
    const auto job = Job::Start(context, context->TakeNumber(), "the test",
                                std::make_unique<StepWork>(context->rank(), 2, &shared));
    if (context->rank() == 1 && only_polls) {
      while (!job->Ready()) exchange.transport().clock().SleepNs(10 * kNsPerMs);
    }
    Status status = job->Wait();
    while (status.code() == Code::kTimedOut) status = job->Wait();
    EXPECT_OK(status);
    while (!filled) exchange.Progress();  // a slow rank 0 may only begin to send now
    if (context->rank() == 1) ended = true;
    while (!ended) exchange.Progress();
  });
  EXPECT_EQ(shared.in_step[2].load(), 2);
}

TEST_P(LostNews, LostNewsReachesRanksThatWait) { LoseNews(/*only_polls=*/false); }
TEST_P(LostNews, LostNewsReachesRanksThatOnlyPoll) { LoseNews(/*only_polls=*/true); }

// A rank that is stopped, or cannot go on, while another one waits through rank 0.
class Hindered : public testing::TestWithParam<bool> {
 protected:
  static constexpr int kCount = 4;
  static constexpr int kAtFault = 2;
  static constexpr int kFewDeadlines = 4;
  static constexpr int kHinderedDeadlines = 6;
  static constexpr int kLongDeadlines = 12;

  static uint64_t timeout_ms() { return GetParam() ? kTimeoutMs : 500; }
  // Each several times, with other seeds; real time is dear.
  static std::vector<int> RanksAtFault() {
    if (!GetParam()) return {kAtFault};
    std::vector<int> all;
    for (int i = 0; i < 20; ++i) all.push_back(i % 2 == 0 ? 0 : kAtFault);
    return all;
  }
  static uint64_t Deadlines(int count) {
    return static_cast<uint64_t>(count) * timeout_ms() * kNsPerMs;
  }
  void Run(const std::function<void(const std::shared_ptr<ContextState>&)>& program) {
    RunSimRanks({.rank_count = kCount,
                 .by_turns = GetParam(),
                 .seed = ++seed_,
                 .timeout_ms = timeout_ms(),
                 .mishaps = [this](comm::SimNetwork& network) { network_ = &network; }},
                program);
  }
  void WaitHindered(const std::shared_ptr<ContextState>& context, const std::shared_ptr<Job>& job,
                    int at_fault);
  void ProgressUntil(const std::shared_ptr<ContextState>& context,
                     const std::function<bool()>& done);
  void Progress(const std::shared_ptr<ContextState>& context, uint64_t ns);
  std::shared_ptr<Job> StartHeld(const std::shared_ptr<ContextState>& context, bool held,
                                 JobWork::State state, uint64_t ns);

  uint64_t seed_ = 0;
  comm::SimNetwork* network_ = nullptr;
  std::atomic<int> ended_{0};
};

INSTANTIATE_TEST_SUITE_P(Modes, Hindered, testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Seeded" : "Threads"; });

// The wait gives up soon, and names the rank; a later one goes on to the job's end.
void Hindered::WaitHindered(const std::shared_ptr<ContextState>& context,
                            const std::shared_ptr<Job>& job, int at_fault) {
  io::Clock& clock = context->exchange->transport().clock();
  const uint64_t begin_ns = clock.NowNs();
  const std::string name = "the test: rank " + std::to_string(at_fault) + " has not ";
  bool named = false;  // in real time another rank may be slow as well, and be named before
  Status status = job->Wait();
  if (GetParam()) {
    EXPECT_THAT(status.message(), HasSubstr(name));
    EXPECT_LE(clock.NowNs() - begin_ns, Deadlines(kFewDeadlines));
  }
  while (status.code() == Code::kTimedOut) {
    named = named || status.message().find(name) != std::string::npos;
    status = job->Wait();
  }
  EXPECT_TRUE(named) << "rank " << context->rank() << ", rank " << at_fault << " at fault";
  EXPECT_OK(status);
}

void Hindered::ProgressUntil(const std::shared_ptr<ContextState>& context,
                             const std::function<bool()>& done) {
  while (!done()) {
    context->Progress();
    while (context->manual_background && context->blocking_executor->RunOne()) {
    }
    context->exchange->transport().clock().SleepNs(10 * kNsPerMs);
  }
}

TEST_P(Hindered, AllRanksLearnThatARankIsStopped) {
  for (const int waiting : RanksAtFault()) {
    const int first_waiting = waiting == 0 ? 0 : 1;  // rank 0 may only make progress
    ended_ = 0;
    std::atomic<int> begun{0};
    Shared shared;
    Run([&](const std::shared_ptr<ContextState>& context) {
      const int rank = context->rank();
      ++begun;
      ProgressUntil(context, [&] { return begun == kCount; });
      if (rank == kAtFault) network_->Stop(rank, Deadlines(kHinderedDeadlines));
      const auto job = Job::Start(context, context->TakeNumber(), "the test",
                                  std::make_unique<StepWork>(rank, kCount, &shared));
      if (rank == kAtFault) {
        Status status = job->Wait();
        while (status.code() == Code::kTimedOut) status = job->Wait();
        EXPECT_OK(status);
      } else if (rank >= first_waiting) {
        WaitHindered(context, job, kAtFault);
      }
      ++ended_;
      ProgressUntil(context, [&] { return ended_ == kCount; });
    });
    EXPECT_EQ(shared.finished.load(), kCount);
  }
}

// Waits until it is released.
class HeldWork final : public JobWork {
 public:
  HeldWork(bool held, State state) : held_(held), state_(state) {}
  int step_count() const override { return 1; }
  Result<State> Advance(int) override { return held_ ? state_ : State::kThrough; }
  void Release() { held_ = false; }

 private:
  std::atomic<bool> held_;
  const State state_;
};

// Starts a job of which this rank's part, if it is `held`, says `state` for so long.
std::shared_ptr<Job> Hindered::StartHeld(const std::shared_ptr<ContextState>& context, bool held,
                                         JobWork::State state, uint64_t ns) {
  auto work = std::make_unique<HeldWork>(held, state);
  HeldWork* const mine = work.get();
  const auto job = Job::Start(context, context->TakeNumber(), "the test", std::move(work));
  if (held) {
    Progress(context, ns);
    mine->Release();
    job->Resume();
  }
  return job;
}

void Hindered::Progress(const std::shared_ptr<ContextState>& context, uint64_t ns) {
  io::Clock& clock = context->exchange->transport().clock();
  const uint64_t end_ns = clock.NowNs() + ns;
  ProgressUntil(context, [&] { return clock.NowNs() > end_ns; });
}

TEST_P(Hindered, AllRanksLearnThatARankLivesButMakesNoProgress) {
  for (const int at_fault : RanksAtFault()) {
    ended_ = 0;
    Run([&](const std::shared_ptr<ContextState>& context) {
      const bool held = context->rank() == at_fault;
      const auto job =
          StartHeld(context, held, JobWork::State::kWaiting, Deadlines(kHinderedDeadlines));
      if (held) {
        EXPECT_OK(job->Wait());
      } else {
        WaitHindered(context, job, at_fault);
      }
      ++ended_;
      ProgressUntil(context, [&] { return ended_ == kCount; });
    });
  }
}

TEST_P(Hindered, NoRankGivesUpIfAProgramTakesItsTime) {
  for (const int late : RanksAtFault()) {
    ended_ = 0;
    Run([&](const std::shared_ptr<ContextState>& context) {
      const auto job = StartHeld(context, context->rank() == late, JobWork::State::kForProgram,
                                 Deadlines(kFewDeadlines));
      EXPECT_OK(job->Wait());
      ++ended_;
      ProgressUntil(context, [&] { return ended_ == kCount; });
    });
  }
}

// In real time a rank may be slow again.
class HinderedByTurns : public Hindered {};
INSTANTIATE_TEST_SUITE_P(Modes, HinderedByTurns, testing::Values(true),
                         [](const auto&) { return "Seeded"; });

// A rank was stopped while rank 0 asked for its state. It has continued, and was not asked again.
TEST_P(HinderedByTurns, NoRankGivesUpBecauseOfAnOldQuestion) {
  for (int i = 0; i < 10; ++i) {
    ended_ = 0;
    Run([&](const std::shared_ptr<ContextState>& context) {
      const int rank = context->rank();
      if (rank == kAtFault) network_->Stop(rank, Deadlines(kHinderedDeadlines));
      const auto job = StartHeld(context, rank == kAtFault, JobWork::State::kForProgram,
                                 Deadlines(kLongDeadlines) + Deadlines(3) / 2);
      if (rank == 0) {
        EXPECT_CODE(job->Wait(), Code::kTimedOut);
        Progress(context, Deadlines(kLongDeadlines));
      } else if (rank != kAtFault) {
        Progress(context, Deadlines(kLongDeadlines - 1));
      }
      EXPECT_OK(job->Wait());
      ++ended_;
      ProgressUntil(context, [&] { return ended_ == kCount; });
    });
  }
}

TEST_P(Hindered, NoRankGivesUpIfARankIsSlow) {
  for (const int slow : RanksAtFault()) {
    ended_ = 0;
    Run([&](const std::shared_ptr<ContextState>& context) {
      const bool held = context->rank() == slow;
      auto work = std::make_unique<HeldWork>(held, JobWork::State::kWaiting);
      HeldWork* const mine = work.get();
      const auto job = Job::Start(context, context->TakeNumber(), "the test", std::move(work));
      for (int slices = 0; held && slices < 5 * kFewDeadlines; ++slices) {
        io::Clock& clock = context->exchange->transport().clock();
        const uint64_t end_ns = clock.NowNs() + Deadlines(1) / 5;
        ProgressUntil(context, [&] { return clock.NowNs() > end_ns; });
        job->Resume();
      }
      mine->Release();
      job->Resume();
      EXPECT_OK(job->Wait());
      ++ended_;
      ProgressUntil(context, [&] { return ended_ == kCount; });
    });
  }
}

// Everything that ranks did is taken back before a failed job ends.
class UndoWork final : public JobWork {
 public:
  UndoWork(int rank, int failing_step, std::atomic<int>* done)
      : rank_(rank), failing_step_(failing_step), done_(*done) {}
  int step_count() const override { return 2; }
  Result<State> Advance(int step) override {
    if (step == 0) ++done_;
    if (rank_ == 1 && step == failing_step_) return Status(Code::kIo, "broken");
    return State::kThrough;
  }
  bool CanUndo(int step) override { return step == 0; }
  void Undo() override { --done_; }

 private:
  const int rank_;
  const int failing_step_;
  std::atomic<int>& done_;
};

TEST_P(Jobs, AreTakenBackOnAllRanksBeforeTheyEnd) {
  for (const int failing_step : {0, 1}) {
    for (int count = 2; count <= 4; ++count) {
      std::atomic<int> done{0};
      Run(count, [&](const std::shared_ptr<ContextState>& context) {
        const auto job =
            Job::Start(context, context->TakeNumber(), "the test",
                       std::make_unique<UndoWork>(context->rank(), failing_step, &done));
        const Status status = job->Wait();
        EXPECT_EQ(status.code(), Code::kIo);
        EXPECT_THAT(status.message(), HasSubstr("rank 1: broken"));
        EXPECT_EQ(done.load(), failing_step == 0 ? 0 : count);
        ASSERT_OK(context->exchange->Barrier());
      });
    }
  }
}

TEST_P(Jobs, AStoppedJobRunsNoMore) {
  Shared shared;
  Run(1, [&](const std::shared_ptr<ContextState>& context) {
    const auto job =
        Job::Start(context, context->TakeNumber(), "the test", std::make_unique<StuckWork>());
    job->Stop();
    EXPECT_TRUE(job->Ready());
    EXPECT_THAT(job->Wait().message(), HasSubstr("given up"));
    job->Resume();
  });
}

}  // namespace
}  // namespace quire::runtime::job_test
