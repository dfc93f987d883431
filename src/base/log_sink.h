/// The library's only voice: one callback. Nothing is printed of its own accord.
///
/// Layer      base
/// Threads    any
#pragma once

#include <functional>
#include <string>

namespace quire::base {

enum class LogLevel { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };
using LogSink = std::function<void(LogLevel, const std::string&)>;

/// Replaces the sink (empty: silence, the default). QUIRE_LOG_LEVEL=error|warning|info|debug
/// (read by api) installs one on stderr.
void SetLogSink(LogSink sink);
/// Hands one line to the sink, if there is one. The text is built by the caller only if
/// LogEnabled().
void Log(LogLevel level, const std::string& text);
bool LogEnabled();

}  // namespace quire::base
