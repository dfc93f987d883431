// The seeds of a random model, and the options that it draws.
//
// Threads: one at a time.
#ifndef QUIRE_TESTS_SUPPORT_MODEL_SEEDS_H_
#define QUIRE_TESTS_SUPPORT_MODEL_SEEDS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>

#include "tests/support/test_scale.h"

namespace quire::test {

/// Calls run(seed) for QUIRE_MODEL_SEEDS seeds (default 60) from QUIRE_FIRST_SEED on, up to the
/// first that fails, and says how to repeat that. Each seed is printed before its run: a run that
/// crashes or hangs, on whatever thread, names its seed, too.
template <typename Run>
void ForEachModelSeed(const Run& run) {
  const uint64_t first = FirstSeed();
  const auto count = static_cast<uint64_t>(ScaledCount("QUIRE_MODEL_SEEDS", 60));
  for (uint64_t seed = first; seed < first + count; ++seed) {
    std::printf("[   SEED   ] QUIRE_MODEL_SEEDS=1 QUIRE_FIRST_SEED=%llu\n",
                static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    run(seed);
    ASSERT_FALSE(testing::Test::HasFailure())
        << "again: QUIRE_MODEL_SEEDS=1 QUIRE_FIRST_SEED=" << seed;
  }
}

}  // namespace quire::test

#endif  // QUIRE_TESTS_SUPPORT_MODEL_SEEDS_H_
