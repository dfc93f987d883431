/// QUIRE_CHECK: a broken invariant of our own code. Never for bytes from disk, wire or user.
///
/// Layer      base
/// Threads    any
#pragma once

namespace quire::base {

/// Logs file, line and condition (with the rank, where known), then aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace quire::base

#define QUIRE_CHECK(condition)                                                   \
  do {                                                                           \
    if (!(condition)) [[unlikely]]                                               \
      ::quire::base::CheckFailed(__FILE__, __LINE__, #condition);                \
  } while (false)
