/// Keys, values and texts as a person can read them, on a terminal, too.
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
/// The text with every byte escaped as \xNN that a terminal could obey, or that would begin a line:
/// control characters (C0, DEL, C1) and what is not UTF-8. For paths, names and messages, which
/// others may have chosen; a text that is legible already comes back as it is.
std::string Legible(Slice text);

/// Makes `text` what a failed `status` says: its message, else the name of its code. Without memory
/// it says that.
void SayWhy(const Status& status, std::string* text) noexcept;
/// Two digits for each byte.
std::string Hex(Slice bytes);

}  // namespace quire::base
