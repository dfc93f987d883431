/// The check that only the owner of a file or directory may change it.
///
/// Layer      io
/// Source     docs/security.md
/// Threads    pure functions of what is on disk
#pragma once

#include <string>

#include "io/files/file_system.h"

namespace quire::io {

/// Returns kInvalidArgument if users other than its owner may change the file or directory at
/// `path` (FileSystem::SoleWriter). OK if it does not exist: opening it reports that.
Status CheckSoleWriter(FileSystem& fs, const std::string& path);

}  // namespace quire::io
