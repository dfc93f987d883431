/// Creates a new DATABASE from the existing parts, for quire repair.
///
/// Layer      tools
/// Encoding   docs/format/database.md
/// Threads    one
/// Invariants a partitioner is written only if the existing keys agree with it, or if the user
///            names it
#pragma once

#include <string>

#include "io/files/file_system.h"
#include "lsm/offline/repair.h"
#include "quire/status.h"
#include "tools/quire/catalog.h"

namespace quire::tool {

struct RebuildOptions {
  bool dry_run = true;
  int rank_count = 0;       ///< of the newest generation; 0: taken from its parts
  std::string partitioner;  ///< empty: "hash", if the keys agree
  std::string lost_directory;
  std::string holder;  ///< for the lock file
};

/// Rebuilds the descriptor of `place`, which has lost it, and whose parts can be opened.
///
/// Errors  kInvalidArgument: the number of ranks, or the partitioner, must be given.
///         kNotFound: there is no part. kBusy, kIo, kNoSpace.
Result<lsm::RepairReport> RebuildDescriptor(io::FileSystem& fs, const DatabaseOnDisk& place,
                                            const RebuildOptions& options);

}  // namespace quire::tool
