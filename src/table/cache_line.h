/// What a processor reads at once.
///
/// Layer      table
/// Threads    a constant
#pragma once

#include <cstddef>

namespace quire::table {

inline constexpr size_t kCacheLineBytes = 64;

}  // namespace quire::table
