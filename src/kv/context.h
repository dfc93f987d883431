/// The runtime of a repository on one rank, over any transport and file system.
///
/// Layer      kv
/// Threads    NewContext: collective
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/transport.h"
#include "io/file_system.h"
#include "quire/database.h"

namespace quire::kv {

/// What a Context takes from the machine; simulations give their own.
struct ContextEnvironment {
  Status prepared;               ///< what this rank has met before: told on all ranks
  io::FileSystem* fs = nullptr;  ///< null: the real one
  bool background_threads =
      true;  ///< false: background work is done inside calls, in the same order each time
  uint64_t machine_bytes = 0;  ///< memory of this rank's machine; 0: asks it
  std::string thread_level;    ///< of MPI, for the description; empty: there is no MPI
};

/// Collective. `options` are as the program gave them: environment variables and ranges are seen to
/// here.
Result<std::unique_ptr<Context>> NewContext(const ContextEnvironment& environment,
                                            std::unique_ptr<comm::Transport> transport,
                                            const std::string& repository,
                                            const ContextOptions& options);

/// `repository` with a leading "$NAME" replaced by that environment variable, and without trailing
/// slashes. kInvalidArgument: empty, or the variable is not set.
Result<std::string> ExpandRepository(const std::string& repository);

}  // namespace quire::kv
