/// QUIRE_CHECK: a broken invariant of our own code. Never for bytes from disk, wire or user.
///
/// Layer      base
/// Threads    any
#pragma once

namespace quire::base {

/// Logs file, line and condition (with the rank, where known), then aborts. If no log sink is
/// installed, the line goes to standard error, as with assert().
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

/// The rank that CheckFailed names; negative (the default): none.
void SetCheckRank(int rank);

}  // namespace quire::base

#define QUIRE_CHECK(condition)                                    \
  do {                                                            \
    if (!(condition)) [[unlikely]]                                \
      ::quire::base::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)
