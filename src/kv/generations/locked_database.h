/// A database's directory, locked by rank 0 for all ranks, and the content of its descriptor: the
/// first step of opening, destroying and restarting.
///
/// Layer      kv
/// Encoding   docs/format/database.md
/// Threads    collective
#pragma once

#include <memory>
#include <string>

#include "io/paths/made_paths.h"
#include "kv/protocol/descriptor.h"
#include "runtime/context_state.h"

namespace quire::kv {

struct LockedDatabase {
  std::string directory;
  std::unique_ptr<io::FileLock> lock;  ///< rank 0: over the whole database
  /// The directory and the lock file, if they did not exist. Keep() them when there is a database,
  /// or when one begins: otherwise a refused call would leave them behind.
  io::MadePaths made;
  DatabaseDescriptor descriptor;  ///< the same on all ranks; no generation: there is none

  /// Returns the path of the lock file, below `directory`.
  static std::string LockPath(const std::string& directory) { return directory + "/LOCK"; }
};

/// Locks the database `name`; creates its directory if it does not exist and `make` is set. Every
/// rank creates it: it may be on a device of its own node. A failed call removes what it made.
///
/// Collective. Errors, the same on all ranks: kBusy (open elsewhere: names the holder), kCorruption
/// (the descriptor is damaged, or ranks have parts but rank 0 has none), kInvalidArgument (the
/// directory, or one of a generation, belongs to another user or may be written by others), kIo.
Result<LockedDatabase> LockDatabase(const runtime::ContextState& context, const std::string& name,
                                    bool make);

}  // namespace quire::kv
