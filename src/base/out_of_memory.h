/// Turns a failed allocation into the result of a call, in places where an exception would leave
/// other threads waiting, or end a thread.
///
/// Layer      base
/// Threads    any
#pragma once

#include <new>

#include "quire/status.h"

namespace quire::base {

/// kOutOfMemory. Takes no memory.
Status OutOfMemory();

/// Returns the result of `body`, a Status or a Result; OutOfMemory() where it throws
/// std::bad_alloc.
template <typename Body>
auto OrOutOfMemory(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

}  // namespace quire::base
