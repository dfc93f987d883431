/// A bit mixer, from which filters derive their positions.
///
/// Layer      filter
/// Source     Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (the mixer)
/// Threads    pure functions
#pragma once

#include <cstdint>

namespace quire::filter {

constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;

/// Mixes bits, one to one: every bit of the result depends on every bit of the argument.
inline uint64_t Spread(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  return bits ^ (bits >> 31);
}

}  // namespace quire::filter
