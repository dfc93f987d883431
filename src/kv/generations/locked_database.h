/// A database's directory, locked by rank 0 for all ranks, and what its descriptor says: where
/// opening, destroying and restarting begin.
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
  /// The directory and the file of the lock, if they were not there. Keep() them when there is a
  /// database, or when one begins: else a refused call would leave them.
  io::MadePaths made;
  DatabaseDescriptor descriptor;  ///< the same on all ranks; no generation: there is none

  /// The file of the lock, below `directory`.
  static std::string LockPath(const std::string& directory) { return directory + "/LOCK"; }
};

/// Locks the database `name`; creates its directory if it is absent and `make` is set. Every rank
/// does: it may be on a device of its own node. If the call fails, what it made is gone again.
///
/// Collective. Errors, the same on all ranks: kBusy (open elsewhere: names the holder), kCorruption
/// (the descriptor is damaged, or ranks have parts but rank 0 has none), kInvalidArgument (the
/// directory, or one of a generation, belongs to another user or may be written by others), kIo.
Result<LockedDatabase> LockDatabase(const runtime::ContextState& context, const std::string& name,
                                    bool make);

}  // namespace quire::kv
