// Background jobs: when they are scheduled, who waits for them, and what their failures end.
#include "lsm/jobs/background_jobs.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "base/threads/executor.h"
#include "lsm/jobs/write_health.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::background_jobs_test {
namespace {

// Jobs that run only when the test lets them, or waits.
class BackgroundJobsTest : public testing::Test {
 protected:
  ~BackgroundJobsTest() override { jobs_.Close(); }

  void ScheduleDue() {
    const std::lock_guard<std::mutex> lock(mutex_);
    jobs_.ScheduleDueLocked();
  }
  Status WaitIdle() {
    std::unique_lock<std::mutex> lock(mutex_);
    return jobs_.WaitLocked(lock, [this] { return jobs_.idle(); });
  }

  const std::unique_ptr<base::Executor> executor_ = base::NewManualExecutor();
  std::mutex mutex_;
  std::condition_variable changed_;
  WriteHealth health_{"/db", mutex_, changed_};
  BackgroundJobs jobs_{*executor_, mutex_, changed_, health_};
  int runs_ = 0;
};

TEST_F(BackgroundJobsTest, RunWhileTheyAreDueOneOfAKindAtATime) {
  jobs_.Add({[this] { return runs_ < 3; }, [this] { ++runs_; }});
  ScheduleDue();
  ScheduleDue();  // it is queued already
  EXPECT_EQ(runs_, 0);
  EXPECT_TRUE(executor_->RunOne());
  EXPECT_EQ(runs_, 1);
  EXPECT_OK(WaitIdle());
  EXPECT_EQ(runs_, 3);
  EXPECT_FALSE(executor_->RunOne());
}

TEST_F(BackgroundJobsTest, AreScheduledInTheOrderInWhichTheirKindsWereAdded) {
  std::string order;
  jobs_.Add({[&] { return order.empty(); }, [&] { order += "first "; }});
  jobs_.Add({[&] { return order.empty(); }, [&] { order += "second "; }, true});
  ScheduleDue();
  EXPECT_OK(WaitIdle());
  EXPECT_EQ(order, "first second ");
}

TEST_F(BackgroundJobsTest, AreNotScheduledAfterAFailure) {
  jobs_.Add({[] { return true; },
             [this] {
               ++runs_;
               health_.Fail(Status(Code::kIo, "the device is gone"), "a job");
             }});
  ScheduleDue();
  EXPECT_EQ(WaitIdle().code(), Code::kOk);  // the one that failed is over
  EXPECT_EQ(runs_, 1);
  ScheduleDue();
  EXPECT_FALSE(executor_->RunOne());
  EXPECT_TRUE(health_.refused());
  EXPECT_EQ(health_.WriteStatus().code(), Code::kReadOnly);
}

TEST_F(BackgroundJobsTest, WithoutMemoryEndTheWaitWithAShortageAndNoWrites) {
  jobs_.Add({[this] { return runs_ == 0; },
             [this] {
               ++runs_;
               throw std::bad_alloc();
             }});
  ScheduleDue();
  std::unique_lock<std::mutex> lock(mutex_);
  EXPECT_EQ(jobs_.WaitLocked(lock, [] { return false; }).code(), Code::kOutOfMemory);
  EXPECT_FALSE(health_.refused());
  health_.ClearShortageLocked();
  EXPECT_OK(health_.shortage());
}

TEST_F(BackgroundJobsTest, QueuedJobsAreOverWhenCloseReturns) {
  jobs_.Add({[] { return true; },
             [this] {
               const std::lock_guard<std::mutex> lock(mutex_);
               EXPECT_TRUE(jobs_.closing());
               EXPECT_FALSE(jobs_.MayWorkLocked());
               ++runs_;
             }});
  ScheduleDue();
  jobs_.Close();
  EXPECT_EQ(runs_, 1);
  ScheduleDue();
  EXPECT_FALSE(executor_->RunOne());
}

TEST_F(BackgroundJobsTest, LeaveTheFirstFailureAsTheReason) {
  health_.Fail(Status(Code::kIo, "the first cause"), "a flush");
  health_.Fail(Status(Code::kCorruption, "the second cause"), "a merge");
  const std::string text = health_.WriteStatus().ToString();
  EXPECT_NE(text.find("a flush in /db: the first cause"), std::string::npos) << text;
  EXPECT_EQ(text.find("the second"), std::string::npos) << text;
}

}  // namespace
}  // namespace quire::lsm::background_jobs_test
