/// A file whose read bytes do not change. Small reads are copied from a mapping, if it has one. The
/// others use a descriptor that may be closed in between (io/files/descriptor_cache.h).
///
/// Layer      io (internal)
/// Source     docs/decisions/0004-tables.md
/// Threads    any number of readers
#pragma once

#include <memory>
#include <string>

#include "io/files/descriptor.h"
#include "io/files/file_system.h"

namespace quire::io {

/// Returns such a file for `fd`, which is the one at `path`, opened with `flags`. Its mapping keeps
/// a removed or replaced file readable. A file without one keeps its descriptor if it may lose its
/// name (`keeps_name` false).
///
/// Errors  kIo, kOutOfMemory.
Result<std::unique_ptr<File>> NewImmutableFile(FileDescriptor fd, const std::string& path,
                                               int flags, bool keeps_name);

}  // namespace quire::io
