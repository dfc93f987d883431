/// The library's only voice, from inside: the callback that quire::SetLogSink installed.
///
/// Layer      base
/// Threads    any
#pragma once

#include <string>

#include "quire/log.h"

namespace quire::base {

/// Hands one line to the sink, if there is one. The text is built by the caller only if
/// LogEnabled().
void Log(LogLevel level, const std::string& text);
/// The same for places that must not throw: the line is dropped if there is no memory for it.
void Log(LogLevel level, const char* text) noexcept;
bool LogEnabled();

}  // namespace quire::base
