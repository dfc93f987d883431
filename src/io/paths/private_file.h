/// Files that hold a secret of one user.
///
/// Layer      io
/// Threads    any
#pragma once

#include <cstdint>
#include <string>

#include "quire/status.h"

namespace quire::io {

/// Reads a file that only this user can read or write: no link, owned by the user, mode 0600 or
/// less.
///
/// Errors   kNotFound. kInvalidArgument  Other users may access it, it belongs to another user, is
///          no file, or has more than `size_max` bytes.
Result<std::string> ReadPrivateFile(const std::string& path, uint64_t size_max);

}  // namespace quire::io
