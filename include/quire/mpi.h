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

/// The runtime of `repository` over the ranks of a communicator given as a Fortran handle (any
/// MPI).
Result<std::unique_ptr<Context>> OpenContextFortran(int communicator, const std::string& repository,
                                                    const ContextOptions& options);

/// The runtime of `repository` over the ranks of `communicator`. Collective. The communicator is
/// duplicated and left as it is, its error handler included. Destroy the Context before
/// MPI_Finalize, on all ranks.
///
/// Errors   kInvalidArgument  MPI is not initialized (call MPI_Init_thread first, or use
///                            Context::OpenSerial), the repository is not ours, options differ
///                            between ranks, or ranks of one node give different repositories (a
///                            relative one is that of each rank's working directory).
/// Cost     a few collectives; nodes share memory rings of at most 64 MiB in all.
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
