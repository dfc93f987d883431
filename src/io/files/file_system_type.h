/// The kind of file system that holds a file.
///
/// Layer      io
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <string>

namespace quire::io {

/// Returns the type of the file system that contains `path`: "ext4", "nfs", "lustre", ..., or its
/// number; "unknown".
std::string FileSystemType(const std::string& path);
/// Returns whether machines share file systems of this type.
bool IsSharedType(const std::string& type);
/// Returns the name of a file system (by statfs's number) that writes each changed page to a new
/// place, and cannot be configured otherwise; null for all others. Allocated space in a file
/// guarantees nothing there.
const char* AlwaysWritesElsewhere(uint32_t number);

}  // namespace quire::io
