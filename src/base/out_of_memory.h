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

/// Returns a failure with the text that `text()` makes; without memory for that its code alone,
/// since the other ranks hear this code, too.
template <typename Text>
Status Failure(Code code, const Text& text) {
  try {
    return Status(code, text());
  } catch (const std::bad_alloc&) {
    return Status(code);
  }
}

}  // namespace quire::base
