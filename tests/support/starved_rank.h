// One rank of a job whose n-th allocation, descriptor or mapping fails in a collective call, for
// n = 0, 1, ...: all ranks must receive the same code.
//
// Threads: one thread of each rank; collective.
#ifndef QUIRE_TESTS_SUPPORT_STARVED_RANK_H_
#define QUIRE_TESTS_SUPPORT_STARVED_RANK_H_

#include <mpi.h>

#include <cstdint>
#include <cstdio>

#include "tests/api/shortages.h"
#include "tests/support/test_scale.h"

namespace quire::test {

struct StarvedCalls {
  int failed = 0;  ///< calls that returned an error, on all ranks the same one
  int parted = 0;  ///< calls whose code was not the same on all ranks
};

/// Fails each of the first 24 allocations of the call, and then every 24th of as many as there are;
/// with QUIRE_TEST_SCALE of 2 or more each.
constexpr int64_t kEachUntil = 24;
constexpr int64_t kStepBehind = 24;
inline int64_t StarvedStep(int64_t n) {
  return n < kEachUntil || ScaledCount(1) > 1 ? 1 : kStepBehind;
}

/// As StarveLastRank, for one kind of shortage; adds to `outcome`.
template <typename Call, typename Restore>
void StarveLastRankOf(const Shortage& shortage, const char* name, const Call& call,
                      const Restore& restore, StarvedCalls* outcome) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int more = 1;
  for (int64_t n = 0; more != 0; n += StarvedStep(n)) {
    if (rank == size - 1) shortage.refuse(n);
    const int code = call();
    if (rank == size - 1) more = shortage.was_refused() ? 1 : 0;
    MPI_Bcast(&more, 1, MPI_INT, size - 1, MPI_COMM_WORLD);
    int least = 0;
    int most = 0;
    MPI_Allreduce(&code, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&code, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (least != most) {
      std::fprintf(stderr, "rank %d receives %d of %s without %s %d\n", rank, code, name,
                   shortage.what, static_cast<int>(n));
    }
    outcome->parted += least == most ? 0 : 1;
    outcome->failed += least != 0 && most != 0 ? 1 : 0;
    restore(code == 0);
    // A request of a rank that is not through would be answered by the thread that lacks memory.
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/// `call()` returns a code, 0 for success; `restore(done)` brings back what a call that was done
/// has taken away. Only the thread of the last rank that makes the call lacks memory, then
/// descriptors, then mappings.
template <typename Call, typename Restore>
StarvedCalls StarveLastRank(const char* name, const Call& call, const Restore& restore) {
  StarvedCalls outcome;
  for (const Shortage& shortage : kShortages) {
    StarveLastRankOf(shortage, name, call, restore, &outcome);
  }
  return outcome;
}

}  // namespace quire::test

#endif  // QUIRE_TESTS_SUPPORT_STARVED_RANK_H_
