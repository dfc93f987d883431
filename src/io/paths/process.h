/// Starting of processes that continue by themselves.
///
/// Layer      io
/// Threads    any
#pragma once

#include <string>
#include <vector>

#include "quire/status.h"

namespace quire::io {

/// Starts `program` with `arguments`, in a session of its own, its standard input and output
/// /dev/null, nothing else inherited; waits for its first process to end (a daemon's, once it is
/// ready), at most until the deadline [ns of RealClock()].
///
/// Errors   kNotFound  No such program. kTimedOut. kPeerFailed  It ended with a failure.
Status StartDetached(const std::string& program, const std::vector<std::string>& arguments,
                     uint64_t deadline_ns);
/// Returns the path of the program `name` in PATH; empty if there is none.
std::string FindProgram(const std::string& name);
/// Raises the limit on open files to the most that this process may have.
void RaiseFileLimit();

}  // namespace quire::io
