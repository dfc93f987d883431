// The threads of a rank while its program does not call Quire: they sleep if there is nothing to
// do, and answer other ranks otherwise.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "parallel_fixture.h"

namespace quire::test {
namespace {

using Clock = std::chrono::steady_clock;  // the same for all processes of a machine
using Seconds = std::chrono::duration<double>;

// The machine may be busy with something else just then: the best of so many tries counts.
constexpr int kTries = 3;
constexpr int kKeys = 200;

double CpuSeconds() {
  rusage use = {};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

double OverAll(double value, MPI_Op operation) {
  double result = 0;
  MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, operation, MPI_COMM_WORLD);
  return result;
}

class Progress : public Parallel {
 protected:
  void SetUp() override {
    Parallel::SetUp();
    DatabaseOptions options = Small();
    options.group_size = 1;
    context_ = NewContext();
    ASSERT_NE(context_, nullptr);
    db_ = NewDatabase(*context_, "db", options);
    ASSERT_NE(db_, nullptr);
    // All threads of the library had something to do.
    for (int i = 0; i < kKeys; ++i) ASSERT_OK(db_->Put(Key(rank_, i), "value"));
    ASSERT_OK(db_->Barrier(Level::kSsTable));
  }
  void TearDown() override {
    if (db_ != nullptr) {
      EXPECT_TRUE(db_->Close().ok());
    }
    db_.reset();
    context_.reset();
    Parallel::TearDown();
  }

  std::unique_ptr<Context> context_;
  std::unique_ptr<Database> db_;
};

TEST_F(Progress, RanksWithNothingToDoSleep) {
  constexpr Seconds kRest{2};
  double share = 1;
  for (int i = 0; i < kTries && share >= 0.05; ++i) {
    ASSERT_OK(context_->Barrier());
    // The rank that left the barrier first may still be polling for the others.
    std::this_thread::sleep_for(Seconds(0.2));
    const double before = CpuSeconds();
    std::this_thread::sleep_for(kRest);
    const double used = CpuSeconds() - before;
    share = std::min(share, OverAll(used, MPI_SUM) / kRest.count());
  }
  EXPECT_LT(share, 0.05) << "of one context, all ranks together";
}

// The keys of this test's pairs that rank 0 owns.
std::vector<std::string> KeysOfRank0(const Database& db, int size) {
  std::vector<std::string> keys;
  for (int i = 0; i < kKeys * size && keys.size() < 20; ++i) {
    const std::string key = Key(i % size, i / size);
    if (db.Owner(key) == 0) keys.push_back(key);
  }
  return keys;
}

TEST_F(Progress, AnOwnerThatComputesIsAnsweredFor) {
  if (size_ == 1) GTEST_SKIP() << "nobody else to ask";
  if (!HasThreads()) GTEST_SKIP() << "without MPI_THREAD_MULTIPLE there is no handler";
  constexpr Seconds kCompute{1.5};
  const std::vector<std::string> keys = KeysOfRank0(*db_, size_);
  ASSERT_GE(keys.size(), 10u);
  double took = kCompute.count();
  for (int i = 0; i < kTries && took >= kCompute.count() / 2; ++i) {
    ASSERT_OK(context_->Barrier());
    const Clock::time_point begin = Clock::now();
    if (rank_ == 0) {
      while (Clock::now() - begin < kCompute) {
      }
    } else {
      for (const std::string& key : keys) ASSERT_EQ(GetOr(*db_, key, "absent"), "value");
    }
    const Seconds own = rank_ == 0 ? Seconds(0) : Clock::now() - begin;
    took = std::min(took, OverAll(own.count(), MPI_MAX));
  }
  EXPECT_LT(took, kCompute.count() / 2) << "answers came when the owner was back in Quire";
}

}  // namespace
}  // namespace quire::test
