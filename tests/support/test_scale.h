// How much a test does: its usual count, unless the environment asks for more or less.
//
// Threads: any; reads the environment only.
#ifndef QUIRE_TESTS_SUPPORT_TEST_SCALE_H_
#define QUIRE_TESTS_SUPPORT_TEST_SCALE_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>

namespace quire::test {

/// The number of times that a test repeats what it does: the environment variable `variable` if it
/// is set (QUIRE_CRASH_POINTS, QUIRE_KILL_COUNT, QUIRE_HISTORY_COUNT), else `usual` times
/// QUIRE_TEST_SCALE (default 1). Never below 1: a test that ran nothing would pass for nothing.
inline int64_t ScaledCount(const char* variable, int64_t usual) {
  if (const char* text = std::getenv(variable); text != nullptr && *text != '\0') {
    return std::max<int64_t>(1, std::strtoll(text, nullptr, 10));
  }
  double scale = 1.0;
  if (const char* text = std::getenv("QUIRE_TEST_SCALE"); text != nullptr && *text != '\0') {
    scale = std::strtod(text, nullptr);
  }
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(usual) * scale));
}

/// As above, for counts without a variable of their own.
inline int64_t ScaledCount(int64_t usual) { return ScaledCount("", usual); }

/// How often something must have happened in a test whose length is scaled: `usual` times, less
/// where the environment asks for a shorter test.
inline uint64_t ScaledLeast(int64_t usual) {
  return static_cast<uint64_t>(std::min(usual, ScaledCount(usual)));
}

/// The first of the seeds that a test tries, one after the other: QUIRE_FIRST_SEED, else 1. The
/// long run (scripts/soak) sets another for each round.
inline uint64_t FirstSeed() {
  const char* text = std::getenv("QUIRE_FIRST_SEED");
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : 1;
}

/// The steps of a sweep in which what is numbered 0, 1, ... fails in turn. Each has its turn if
/// QUIRE_TEST_SCALE is 2 or more; else a sample of the later ones, another one for each seed.
class SweepSteps {
 public:
  int64_t After(int64_t n) {
    if (ScaledCount(1) > 1) return 1;
    const int64_t mean = std::min<int64_t>(40, n / 40 + 1);
    return 1 + static_cast<int64_t>(random_() % static_cast<uint64_t>(2 * mean - 1));
  }

 private:
  std::mt19937_64 random_{FirstSeed()};
};

}  // namespace quire::test

#endif  // QUIRE_TESTS_SUPPORT_TEST_SCALE_H_
