/// Pseudorandom numbers from a seed: for simulations and tests, which can repeat them. Not for
/// names or secrets (io/files/machine.h, RandomU64).
///
/// Layer      base
/// Source     Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (SplitMix64)
/// Threads    an object belongs to one thread
#pragma once

#include <cstdint>

namespace quire::base {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  /// Returns the next 64 bits.
  uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15;
    uint64_t bits = state_;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
    return bits ^ (bits >> 31);
  }

  /// Returns a number in [0, bound); 0 if the bound is 0. Uneven by less than bound / 2^64.
  uint64_t Below(uint64_t bound) { return bound == 0 ? 0 : Next() % bound; }

  /// Returns true once in `n` times on average.
  bool OneIn(uint64_t n) { return Below(n) == 0; }

 private:
  uint64_t state_;
};

}  // namespace quire::base
