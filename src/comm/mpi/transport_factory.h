/// The transports of a real job. <mpi.h> is included by this folder's .cpp files and by public
/// headers that take a communicator; a communicator is passed here as the Fortran handle, which has
/// the same type with every MPI.
///
/// Layer      comm
/// Threads    as Transport
#pragma once

#include <memory>

#include "comm/transport/transport.h"
#include "quire/status.h"

namespace quire::comm {

enum class TransportKind {
  kAuto,  ///< shared memory within a node where the system allows it, else MPI
  kMpi,   ///< MPI everywhere
};

struct TransportOptions {
  TransportKind kind = TransportKind::kAuto;
  /// All rings of a node together; but each has at least 16 KiB: those of 128 ranks 254 MiB.
  uint64_t ring_bytes_total_max = 64ull << 20;
  int window_frames = 16;        ///< MPI: frames under way per pair (credits)
  uint64_t timeout_ms = 60'000;  ///< of the opening, for ranks that do not come
};

/// Creates the transport over the communicator with this Fortran handle, which is duplicated (its
/// error handler is unchanged; the duplicate returns errors). Collective. Succeeds on all ranks or
/// on none.
/// Errors: kInvalidArgument where MPI is not initialized or is finalized, kTimedOut, kOutOfMemory.
Result<std::unique_ptr<Transport>> NewTransport(int fortran_communicator,
                                                const TransportOptions& options);

/// Returns true between MPI_Init and MPI_Finalize.
bool MpiIsRunning();
/// Returns the thread level of MPI: "MPI_THREAD_MULTIPLE" and so on.
const char* MpiThreadLevelName();

}  // namespace quire::comm
