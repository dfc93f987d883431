/// Turns a failed allocation into the result of a call, in places where an exception would leave
/// other threads waiting, or end a thread.
///
/// Layer      base
/// Threads    any
#pragma once

#include <new>

#include "quire/status.h"

namespace quire::base {

/// Returns kOutOfMemory. Allocates no memory.
Status OutOfMemory();

/// Returns the result of `body`, a Status or a Result; OutOfMemory() if it throws std::bad_alloc.
template <typename Body>
auto OrOutOfMemory(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

/// Returns a failure with the text that `text()` returns; without a text if there is no memory for
/// it. The code never changes, because the other ranks receive it, too.
template <typename Text>
Status Failure(Code code, const Text& text) {
  try {
    return Status(code, text());
  } catch (const std::bad_alloc&) {
    return Status(code);
  }
}

}  // namespace quire::base
