/// A rank that is late for a collective call, for tests of what follows.
///
/// Layer      kv (tests)
/// Threads    one of each rank
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "kv/database/sim_cluster_testing.h"
#include "quire/database.h"

namespace quire::kv {

/// Of two ranks, rank 1 is stopped for longer than rank 0 waits in the call that both make next.
inline void StopRankOne(SimCluster& cluster, int rank, Context& context) {
  constexpr uint64_t kSecond = 1'000'000'000;
  if (rank == 0) {
    cluster.network().Stop(1, 100 * kSecond);
    ASSERT_TRUE(context.Notify(9, {1}).ok());
  } else {
    Status told(Code::kTimedOut);
    while (told.code() == Code::kTimedOut) told = context.WaitSignal(9, {0});
    ASSERT_TRUE(told.ok()) << told.ToString();
  }
}

/// A barrier times out on both ranks.
inline void LetACallTimeOut(SimCluster& cluster, int rank, Context& context) {
  ASSERT_NO_FATAL_FAILURE(StopRankOne(cluster, rank, context));
  EXPECT_EQ(context.Barrier().code(), Code::kTimedOut);
}

}  // namespace quire::kv
