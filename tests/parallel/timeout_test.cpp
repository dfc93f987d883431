// Ranks that come later than timeout_ms: the early ranks receive kTimedOut in time, and later calls
// are right or refused.
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <memory>
#include <thread>

#include "tests/parallel/parallel_fixture.h"

namespace quire::test {
namespace {

constexpr uint64_t kTimeoutMs = 500;

class Timeouts : public Parallel {
 protected:
  /// The last rank is late by that many times timeout_ms.
  void BeLate(double times) const {
    if (rank_ != size_ - 1) return;
    const auto late = std::chrono::milliseconds(static_cast<int>(times * kTimeoutMs));
    std::this_thread::sleep_for(late);
  }
  /// Calls, on all ranks alike, until no rank came too late because the machine is busy.
  template <typename Call>
  static Status Patiently(const Call& call) {
    Status status(Code::kTimedOut);
    for (int tries = 0; tries < 10 && status.code() == Code::kTimedOut; ++tries) status = call();
    return status;
  }
  /// A rank completed the call at the moment in which another gave it up: rare, and promised.
  static bool IsToBeReopened(const Status& status) {
    return status.code() == Code::kPeerFailed &&
           status.message().find("reopen it on all ranks") != std::string::npos;
  }
  static ContextOptions Impatient() {
    ContextOptions options;
    options.timeout_ms = kTimeoutMs;
    return options;
  }
};

TEST_F(Timeouts, HoldWhileAContextIsOpened) {
  BeLate(3);
  const double begin = MPI_Wtime();
  const auto early = OpenContext(MPI_COMM_WORLD, directory_ + "/repository", Impatient());
  EXPECT_CODE(early.status(), Code::kTimedOut) << early.status().ToString();
  EXPECT_LT(MPI_Wtime() - begin, 10 * kTimeoutMs / 1000.0);
  MPI_Barrier(MPI_COMM_WORLD);
  const auto together = OpenContext(MPI_COMM_WORLD, directory_ + "/repository", {});
  ASSERT_OK(together.status());
  ASSERT_OK((*together)->Barrier());
}

TEST_F(Timeouts, LeaveBarriersThatMatch) {
  const auto context = NewContext(Impatient());
  DatabaseOptions options = Small();
  options.consistency = Consistency::kSequential;
  const auto db = NewDatabase(*context, "db", options);
  for (int step = 1; step <= 3; ++step) {
    if (step == 1) BeLate(1.6);
    if (rank_ == 0) {
      ASSERT_OK(db->Put("step", std::to_string(step)));
    }
    if (step == 1) {
      const Status met = db->Barrier(Level::kMemTable);
      EXPECT_TRUE(met.code() == Code::kTimedOut || IsToBeReopened(met)) << met.ToString();
    }
    const Status again = Patiently([&] { return db->Barrier(Level::kMemTable); });
    if (IsToBeReopened(again)) GTEST_SKIP() << again.ToString();
    ASSERT_OK(again);
    EXPECT_EQ(GetOr(*db, "step", "(absent)"), std::to_string(step));
    ASSERT_OK(Patiently([&] { return context->Barrier(); }));
  }
  ASSERT_OK(db->Close());
}

TEST_F(Timeouts, LeaveADatabaseThatOpens) {
  const auto context = NewContext(Impatient());
  BeLate(1.6);
  const Status late = context->Open("db", Small()).status();
  EXPECT_TRUE(late.code() == Code::kTimedOut || IsToBeReopened(late)) << late.ToString();
  std::unique_ptr<Database> db;
  const Status again = Patiently([&] {
    auto opened = context->Open("db", Small());
    if (opened.ok()) db = *std::move(opened);
    return opened.status();
  });
  if (IsToBeReopened(again)) GTEST_SKIP() << again.ToString();
  ASSERT_OK(again);
  ASSERT_OK(db->Put(Key(rank_, 0), "v"));
  ASSERT_OK(Patiently([&] { return db->Barrier(Level::kMemTable); }));
  for (int rank = 0; rank < size_; ++rank) EXPECT_EQ(GetOr(*db, Key(rank, 0), "-"), "v");
  ASSERT_OK(db->Close());
}

}  // namespace
}  // namespace quire::test
