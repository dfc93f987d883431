/// Converts keys, values and texts to a form that is readable and safe on a terminal.
///
/// Layer      base
/// Threads    pure functions
#pragma once

#include <string>

#include "quire/slice.h"
#include "quire/status.h"

namespace quire::base {

/// Returns printable ASCII bytes as they are, a backslash as \\, and any other byte as \xNN.
std::string Printable(Slice bytes);
/// Returns the text with every byte escaped as \xNN that a terminal could interpret, or that would
/// begin a line: control characters (C0, DEL, C1) and invalid UTF-8. For paths, names and messages,
/// which other users may have chosen; returns a legible text unchanged.
std::string Legible(Slice text);

/// Sets `text` to the message of a failed `status`, or to the name of its code if there is no
/// message. If there is no memory for this, the text says so.
void SayWhy(const Status& status, std::string* text) noexcept;
/// Returns two hexadecimal digits for each byte.
std::string Hex(Slice bytes);

}  // namespace quire::base
