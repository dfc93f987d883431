/// What the library has to say where no call can return it: failures in the background, in
/// destructors, of neighbours. It prints nothing of its own accord.
///
/// Layer      public, below everything
/// Threads    any
#pragma once

#include <functional>
#include <string>

#include "quire/export.h"

namespace quire QUIRE_EXPORT {

/// How much it matters: from what was lost to what is of use to developers only.
enum class LogLevel { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };

/// Takes one line, without its end. Called by any thread of the library, also by several at once,
/// and while the library holds locks of its own: calls of Quire inside it fail, what it throws is
/// dropped, and it must take no lock that is held anywhere during a call of Quire.
using LogSink = std::function<void(LogLevel level, const std::string& text)>;

/// Replaces the sink of this process; an empty one is silence, the default. Without one, the
/// environment variable QUIRE_LOG=error|warning|info|debug installs one on standard error,
/// for lines of that level and above, when the first context is opened. A line on its way may still
/// reach the sink before.
void SetLogSink(LogSink sink);

}  // namespace quire
