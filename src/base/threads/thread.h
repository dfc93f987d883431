/// Starts the threads of Quire. Every thread of the library starts here, so that all of them block
/// the program's signals and every failure to start one is a Status.
///
/// Layer      base
/// Threads    any
#pragma once

#include <functional>
#include <thread>

#include "quire/status.h"

namespace quire::base {

/// Starts a thread that runs `body`, which must not throw. Debuggers show `name` (its first 15
/// bytes). The thread blocks every signal except those that its own instructions raise (SIGSEGV,
/// SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT): a signal sent to the process reaches a thread
/// of the program.
///
/// Errors     kOutOfMemory  The system refused a thread or its memory. The text names the limits.
Result<std::thread> StartThread(const char* name, std::function<void()> body);

/// Makes calls of StartThread in this process fail, for tests: those with numbers `first` to
/// `first + count - 1`, where the next call has number 0. A `count` of 0 ends it.
void FailThreadStarts(int first, int count);
/// Calls of StartThread since the last FailThreadStarts.
int ThreadStarts();

}  // namespace quire::base
