/// Calls of functions that the program gave: update functions, buffer allocators,
/// partitioners, the log sink.
/// Quire calls them where it holds locks, on any of its threads. Their exceptions become errors of
/// the operation, and calls of Quire inside them are refused, because they could wait for ever.
///
/// Layer      base
/// Threads    any
#pragma once

#include <string>

#include "quire/status.h"

namespace quire::base {

namespace internal {
/// Functions of the program that this thread is inside of.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local int program_calls;
}  // namespace internal

/// While one exists this thread may be inside a function of the program.
class ProgramCall {
 public:
  ProgramCall() { ++internal::program_calls; }
  ~ProgramCall() { --internal::program_calls; }
  ProgramCall(const ProgramCall&) = delete;
  ProgramCall& operator=(const ProgramCall&) = delete;
};

/// True on a thread that is inside a function of the program.
inline bool InProgramCall() { return internal::program_calls != 0; }

/// kInvalidArgument: `what` ("the database") was called inside a function of the program.
Status CalledInside(const char* what);

/// The same, if this thread is inside one. For calls that need no object of this process.
inline Status CheckNoProgramCall(const char* what) {
  return InProgramCall() ? CalledInside(what) : Status();
}

/// Inside a catch block: kOutOfMemory of std::bad_alloc, kInvalidArgument of everything else, with
/// the name of the function that threw and the text of the exception.
Status StatusOfException(const std::string& function);

/// Returns the result of `body`, a Status or a Result. Its exceptions become a Status with
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
