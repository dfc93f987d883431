/// A Context over the ranks of an MPI communicator.
///
/// Layer      public; the only public C++ header that includes <mpi.h>
/// Threads    OpenContext: collective
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "quire/database.h"
#include "quire/export.h"

namespace quire QUIRE_EXPORT {

/// Opens the runtime of `repository` over the ranks of a communicator that is passed as a Fortran
/// handle, with any MPI. Otherwise like OpenContext.
Result<std::unique_ptr<Context>> OpenContextFortran(int communicator, const std::string& repository,
                                                    const ContextOptions& options);

/// Opens the runtime of `repository` over the ranks of `communicator`. Collective. Duplicates the
/// communicator; its error handler stays as it is. All ranks must destroy the Context before
/// MPI_Finalize.
///
/// Errors   kInvalidArgument  MPI is not initialized (call MPI_Init_thread first, or use
///                            Context::OpenSerial), the repository belongs to another user, options
///                            differ between ranks, ranks of one node pass different repositories
///                            (a relative path is resolved in each rank's working directory), or
///                            the repository is no directory or is a symbolic link.
///          kNotFound         The repository and its parent directory are absent.
/// Cost     a few collectives. The ranks of a node share rings in memory: 64 MiB in all, and above
///          64 ranks 16 KiB for each ordered pair of them (not with transport = mpi).
inline Result<std::unique_ptr<Context>> OpenContext(MPI_Comm communicator,
                                                    const std::string& repository,
                                                    const ContextOptions& options = {}) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (!initialized) {
    return Status(Code::kInvalidArgument,
                  "MPI is not initialized: call MPI_Init_thread before OpenContext, or use "
                  "Context::OpenSerial");
  }
  return OpenContextFortran(MPI_Comm_c2f(communicator), repository, options);
}

}  // namespace quire
