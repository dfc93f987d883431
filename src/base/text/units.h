/// Sizes in bytes, and times in the nanoseconds in which they are counted.
///
/// Layer      base
/// Threads    constants
#pragma once

#include <cstdint>

namespace quire::base {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;

inline constexpr uint64_t kNsPerMs = 1'000'000;
inline constexpr uint64_t kNsPerSecond = 1'000'000'000;

}  // namespace quire::base
