/// A file system with another one mounted in it, as a cluster's nodes have it: disks of their own,
/// and a directory that all share.
///
/// Layer      kv (tests only)
/// Threads    as those it is made of
#pragma once

#include <memory>
#include <string>

#include "io/files/file_system.h"

namespace quire::kv {

/// `root`, but for the directory `at` and what is below it: that is `mounted`, under the same
/// paths, and `at` is there. Renames and links from one to the other are kUnsupported. The boot id
/// is `root`'s, the machine's. Both must outlive it and what it hands out.
std::unique_ptr<io::FileSystem> NewMountedFiles(io::FileSystem& root, std::string at,
                                                io::FileSystem& mounted);

}  // namespace quire::kv
