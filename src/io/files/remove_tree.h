/// Removal of a directory and all that is in it, by descriptors.
///
/// Layer      io (internal)
/// Threads    any
#pragma once

#include <cstddef>
#include <string>

#include "quire/status.h"

namespace quire::io {

/// Implements FileSystem::RemoveSome.
Result<bool> RemoveSomeAt(const std::string& directory, size_t* most);

}  // namespace quire::io
