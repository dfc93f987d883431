/// Shared memory to the ranks of this node, MPI to the others.
///
/// Layer      comm (mpi_*.cpp only)
/// Threads    as Transport
#pragma once

#include <memory>

#include "comm/mpi/mpi_transport.h"
#include "comm/transport/transport.h"

namespace quire::comm {

/// Both transports belong to the same rank of the same job.
std::unique_ptr<Transport> NewHybridTransport(std::unique_ptr<Transport> shm,
                                              std::unique_ptr<MpiTransport> mpi);

}  // namespace quire::comm
