#include "dataset/route/patient_barrier.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "runtime/sim_ranks_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::dataset::patient_barrier_test {
namespace {

constexpr uint64_t kTimeoutMs = 20'000;
constexpr uint64_t kShortMs = 400;
constexpr uint64_t kLateNs = 4 * kShortMs * 1'000'000;

// By threads: a rank that is late has one that answers for it meanwhile.
void RunThree(uint64_t timeout_ms,
              const std::function<void(const std::shared_ptr<runtime::ContextState>&)>& program) {
  runtime::SimRanksOptions ranks;
  ranks.rank_count = 3;
  ranks.by_turns = false;
  ranks.timeout_ms = timeout_ms;
  RunSimRanks(ranks, program);
}

TEST(PatientBarrier, WaitsForARankThatTakesMuchLongerThanADeadline) {
  for (const int late : {0, 2}) {
    RunThree(kShortMs, [late](const std::shared_ptr<runtime::ContextState>& context) {
      PatientBarrier barrier(context, context->TakeNumber(), "a test");
      if (context->rank() == late) context->exchange->transport().clock().SleepNs(kLateNs);
      EXPECT_OK(barrier.Arrive(Status()));
    });
  }
}

TEST(PatientBarrier, AFailureReachesAllRanks) {
  RunThree(kTimeoutMs, [](const std::shared_ptr<runtime::ContextState>& context) {
    PatientBarrier barrier(context, context->TakeNumber(), "a test");
    const bool fails = context->rank() == 1;
    EXPECT_CODE(barrier.Arrive(fails ? Status(Code::kNoSpace, "full") : Status()), Code::kNoSpace);
  });
}

// If memory runs out before Arrive, the other ranks are notified, and wait no longer.
TEST(PatientBarrier, ARankThatNeverArrivesCountsAsFailed) {
  RunThree(kTimeoutMs, [](const std::shared_ptr<runtime::ContextState>& context) {
    {
      PatientBarrier barrier(context, context->TakeNumber(), "a test");
      if (context->rank() != 1) {
        EXPECT_FALSE(barrier.Arrive(Status()).ok());
      }
    }
    EXPECT_OK(context->exchange->Barrier());
  });
}

}  // namespace
}  // namespace quire::dataset::patient_barrier_test
