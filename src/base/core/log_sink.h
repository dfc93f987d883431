/// The library's only output: calls the sink that quire::SetLogSink installed.
///
/// Layer      base
/// Threads    any
#pragma once

#include <string>

#include "quire/log.h"

namespace quire::base {

/// Passes one line to the sink, if there is one. The caller builds the text only if LogEnabled().
void Log(LogLevel level, const std::string& text);
/// Logs in places that must not throw: drops the line if there is no memory for it.
void Log(LogLevel level, const char* text) noexcept;
bool LogEnabled();

}  // namespace quire::base
