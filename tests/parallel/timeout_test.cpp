// Ranks that come later than timeout_ms: the early ones hear of it in time, and what follows is
// right or refused.
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
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

}  // namespace
}  // namespace quire::test
