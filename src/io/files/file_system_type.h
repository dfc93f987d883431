/// The kind of file system that holds a file.
///
/// Layer      io
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <string>

namespace quire::io {

/// The file system that holds `path`: "ext4", "nfs", "lustre", ..., or its number; "unknown".
std::string FileSystemType(const std::string& path);
/// Whether machines share such a file system.
bool IsSharedType(const std::string& type);
/// Whether such a file system, by statfs's number, writes each page that changes to a new place,
/// and cannot be told otherwise: its name, else null. Room that is set aside in a file is no
/// promise there.
const char* AlwaysWritesElsewhere(uint32_t number);

}  // namespace quire::io
