/// The kind of file system that holds a file.
///
/// Layer      io
/// Threads    pure functions
#pragma once

#include <string>

namespace quire::io {

/// The file system that holds `path`: "ext4", "nfs", "lustre", ..., or its number; "unknown".
std::string FileSystemType(const std::string& path);
/// Whether machines share such a file system.
bool IsSharedType(const std::string& type);

}  // namespace quire::io
