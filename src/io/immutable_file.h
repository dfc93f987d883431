/// A file of which nothing that is read changes: small reads are copied from a mapping, if it has
/// one; the rest is read by a descriptor that may be closed in between (io/descriptor_cache.h).
///
/// Layer      io (internal)
/// Source     docs/decisions/0004-tables.md
/// Threads    any number of readers
#pragma once

#include <memory>
#include <string>

#include "io/descriptor.h"
#include "io/file_system.h"

namespace quire::io {

/// Returns such a file for `fd`, which is the one at `path`, opened with `flags`. Its mapping keeps
/// a removed or replaced file readable. A file without one keeps its descriptor if it may lose its
/// name (`keeps_name` false).
///
/// Errors  kIo.
Result<std::unique_ptr<File>> NewImmutableFile(Descriptor fd, const std::string& path, int flags,
                                               bool keeps_name);

}  // namespace quire::io
