/// Detects that the caller is a forked child. A child has the parent's memory but none of its
/// threads, and shares its locks: it can use no object of Quire that the parent opened.
///
/// Layer      base
/// Threads    any
#pragma once

#include <atomic>
#include <cstdint>

#include "quire/status.h"

namespace quire::base {

namespace internal {
extern std::atomic<uint32_t> fork_generation;
}  // namespace internal

/// Returns the number of forks between the process that loaded Quire and this one. An object
/// remembers the number at its creation; if the number differs later, the caller is a forked child.
/// One relaxed load, no system call (getpid is one). A child created by a bare clone(2) is not
/// detected, because fork handlers do not run in it.
inline uint32_t ForkGeneration() {
  return internal::fork_generation.load(std::memory_order_relaxed);
}

/// Returns kInvalidArgument with a sentence that says what a forked child must do instead. `what`
/// names the object: "database \"a\"".
Status InForkedChild(const char* what);

}  // namespace quire::base
