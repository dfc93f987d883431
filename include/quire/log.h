/// Messages that no call can return: failures in the background, in destructors, and of other
/// ranks. By default the library prints nothing.
///
/// Layer      public, below everything
/// Threads    any
#pragma once

#include <functional>
#include <string>

#include "quire/export.h"

namespace quire QUIRE_EXPORT {

/// The importance of a message, from lost data down to details for developers.
enum class LogLevel { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };

/// Receives one line, without a newline. Any thread of the library may call it, several at once,
/// and while the library holds locks. Calls of Quire inside it fail with kInvalidArgument,
/// exceptions are dropped, and it must not take a lock that the program holds during a call of
/// Quire. Must be quick: the thread that logs waits for it. If that is the thread that serves other
/// ranks, their calls at this rank return kTimedOut after ContextOptions::timeout_ms; once the sink
/// returns, calls proceed.
using LogSink = std::function<void(LogLevel level, const std::string& text)>;

/// Replaces the sink of this process; an empty one discards messages (the default). If there is no
/// sink, the environment variable QUIRE_LOG=error|warning|info|debug installs one when the first
/// context is opened: it prints messages of this level and above to standard error. A message that
/// is being delivered may still reach the previous sink.
void SetLogSink(LogSink sink);

}  // namespace quire
