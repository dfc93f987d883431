/// Calls of functions of the program: update functions, buffer allocators, partitioners, the log
/// sink.
/// Quire calls them while it holds locks, on any of its threads. Their exceptions become errors of
/// the operation, and calls of Quire inside them are refused, because they could wait forever.
///
/// Layer      base
/// Threads    any
#pragma once

#include <string>

#include "quire/status.h"

namespace quire::base {

namespace internal {
/// The number of the program's functions in which this thread is.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local int program_calls;
}  // namespace internal

/// Marks its thread, while it exists, as being inside a function of the program.
class ProgramCall {
 public:
  ProgramCall() { ++internal::program_calls; }
  ~ProgramCall() { --internal::program_calls; }
  ProgramCall(const ProgramCall&) = delete;
  ProgramCall& operator=(const ProgramCall&) = delete;
};

/// Returns whether this thread is inside a function of the program.
inline bool InProgramCall() { return internal::program_calls != 0; }

/// Returns kInvalidArgument: `what` ("the database") was called inside a function of the program.
Status CalledInside(const char* what);

/// Returns CalledInside(what) if this thread is inside such a function, else OK. For calls that
/// need no object of this process.
inline Status CheckNoProgramCall(const char* what) {
  return InProgramCall() ? CalledInside(what) : Status();
}

/// Returns, inside a catch block, the exception as a Status: kOutOfMemory for std::bad_alloc, else
/// kInvalidArgument with the name of the function that threw and the text of the exception.
Status StatusOfException(const std::string& function);

/// Returns the result of `body`, a Status or a Result. Converts its exceptions to a Status with
/// `name()`, which is called only then.
template <typename Name, typename Body>
auto CallProgram(const Name& name, const Body& body) -> decltype(body()) {
  const ProgramCall inside;
  try {
    return body();
  } catch (...) {
    return StatusOfException(name());
  }
}

}  // namespace quire::base
