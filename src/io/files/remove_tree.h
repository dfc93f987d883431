/// Removal of a directory and all that is in it, by descriptors.
///
/// Layer      io (internal)
/// Threads    any
#pragma once

#include <string>

#include "quire/status.h"

namespace quire::io {

/// FileSystem::RemoveTree.
Status RemoveTreeAt(const std::string& directory);

}  // namespace quire::io
