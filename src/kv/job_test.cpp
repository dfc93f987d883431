// Background jobs: steps in order on all ranks, failures of any rank on all alike, nobody hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "kv/job.h"
#include "kv/sim_cluster_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::kv {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What the ranks of a test do, seen by all.
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
  void TakeNews(int step, const std::string& news) override {
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
  // Jobs are of kv; a Context has them where a database asks for one. Here they are by themselves.
  void Run(int count, const std::function<void(const std::shared_ptr<Core>&)>& program) {
    comm::SimNetwork::Options options;
    options.rank_count = count;
    options.deterministic = GetParam();
    const auto network = comm::SimNetwork::Create(options);
    network->Run([&](int, std::unique_ptr<comm::Transport> transport) {
      auto core = std::make_shared<Core>();
      core->executor = GetParam() ? base::NewManualExecutor() : base::NewThreadPool(1, "test");
      core->transfers = core->executor;
      core->manual_background = GetParam();
      comm::ExchangeOptions exchange_options;
      exchange_options.timeout_ms = 2000;
      core->exchange = comm::Exchange::Create(std::move(transport), exchange_options);
      core->exchange->Serve(0, [](int, Slice, std::string*) { return Status(); });
      core->errands = std::make_unique<Errands>(core->exchange.get(), core->executor);
      program(core);
      for (const std::shared_ptr<Job>& job : core->jobs) job->Stop();
      core->jobs.clear();
      core->EndTransfers();
      core->exchange.reset();
      core->EndTransfers();
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, Jobs, testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Seeded" : "Threads"; });

TEST_P(Jobs, GoThroughTheirStepsTogether) {
  for (int count = 1; count <= 4; ++count) {
    Shared shared;
    Run(count, [&](const std::shared_ptr<Core>& core) {
      const int rank = core->rank();
      const auto job =
          Job::Start(core, "the test", std::make_unique<StepWork>(rank, count, &shared));
      ASSERT_OK(job->Wait());
      EXPECT_TRUE(job->Ready());
      EXPECT_EQ(job->Progress().bytes_done, 30u);
      ASSERT_OK(job->Wait());
      ASSERT_OK(core->exchange->Barrier());
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
    Run(3, [&](const std::shared_ptr<Core>& core) {
      const auto job =
          Job::Start(core, "the test", std::make_unique<StepWork>(core->rank(), 3, &shared));
      const Status status = job->Wait();
      EXPECT_EQ(status.code(), Code::kNoSpace);
      EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(failing)));
      EXPECT_THAT(status.message(), HasSubstr("the disk is full"));
      ASSERT_OK(core->exchange->Barrier());
    });
    EXPECT_EQ(shared.finished.load(), 3);
    EXPECT_EQ(shared.in_step[2].load(), 0);
  }
}

TEST_P(Jobs, GoOnWithoutTheirHandleAndBesideEachOther) {
  Shared first;
  Shared second;
  Run(2, [&](const std::shared_ptr<Core>& core) {
    Job::Start(core, "the first", std::make_unique<StepWork>(core->rank(), 2, &first));
    const auto job =
        Job::Start(core, "the second", std::make_unique<StepWork>(core->rank(), 2, &second));
    ASSERT_OK(job->Wait());
    for (const std::shared_ptr<Job>& other : core->jobs) ASSERT_OK(other->Wait());
    ASSERT_OK(core->exchange->Barrier());
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

TEST_P(Jobs, EndWhenARankDies) {
  for (const int dying : {0, 1}) {
    Run(2, [&](const std::shared_ptr<Core>& core) {
      std::unique_ptr<JobWork> work = std::make_unique<StuckWork>();
      Shared shared;
      if (core->rank() != dying) work = std::make_unique<StepWork>(0, 0, &shared);
      const auto job = Job::Start(core, "the test", std::move(work));
      if (core->rank() == dying) return;  // its transport ends: to the other it is dead
      const Status status = job->Wait();
      EXPECT_EQ(status.code(), Code::kPeerFailed) << status.ToString();
    });
  }
}

TEST_P(Jobs, ThatAreStoppedRunNoMore) {
  Shared shared;
  Run(1, [&](const std::shared_ptr<Core>& core) {
    const auto job = Job::Start(core, "the test", std::make_unique<StuckWork>());
    job->Stop();
    EXPECT_TRUE(job->Ready());
    EXPECT_THAT(job->Wait().message(), HasSubstr("given up"));
    job->Resume();
  });
}

}  // namespace
}  // namespace quire::kv
