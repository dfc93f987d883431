/// Whether what a program reads may be changed by its owner alone.
///
/// Layer      io
/// Source     docs/security.md
/// Threads    pure functions of what is on disk
#pragma once

#include <string>

#include "io/files/file_system.h"

namespace quire::io {

/// kInvalidArgument where others than its owner may change what is at `path`
/// (FileSystem::SoleWriter). OK where nothing is there: who opens it tells.
Status CheckSoleWriter(FileSystem& fs, const std::string& path);

}  // namespace quire::io
