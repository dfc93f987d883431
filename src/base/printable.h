/// Keys and values as a person can read them.
///
/// Layer      base
/// Threads    pure functions
#pragma once

#include <string>

#include "quire/slice.h"

namespace quire::base {

/// The bytes as they are where they are printable ASCII; a backslash as \\, any other byte as \xNN.
std::string Printable(Slice bytes);
/// Two digits for each byte.
std::string Hex(Slice bytes);

}  // namespace quire::base
