/// The size of a cache line: a processor reads memory in whole lines.
///
/// Layer      table
/// Threads    a constant
#pragma once

#include <cstddef>

namespace quire::table {

inline constexpr size_t kCacheLineBytes = 64;

}  // namespace quire::table
