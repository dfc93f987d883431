/// The owners of files and directories: which of them this process may write to, and which owners a
/// reader trusts.
///
/// Layer      io (internal)
/// Source     docs/security.md
/// Threads    pure functions of what is on disk
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "quire/status.h"

namespace quire::io {

/// Implements FileSystem::CheckDirectory.
Status CheckOwnDirectory(const std::string& path);
/// Checks a file that has been opened for writing: it belongs to this user, and its group and
/// others may not write to it. Root may write to any user's files: it repairs and cleans for other
/// users. kInvalidArgument.
Status CheckOwnFile(const struct stat& info, const std::string& path);
/// Implements FileSystem::SoleWriter.
Result<uint32_t> SoleWriterOf(const std::string& path);

}  // namespace quire::io
