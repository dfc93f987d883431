/// MPI_COMM_WORLD, and MPI's beginning and end where a program leaves them to the library.
///
/// Layer      comm
/// Threads    one thread
#pragma once

#include "quire/status.h"

namespace quire::comm {

/// MPI_COMM_WORLD as a Fortran handle. Initializes MPI with MPI_THREAD_MULTIPLE if the program has
/// not: `*started` says so. `argc` and `argv` may be null. kInvalidArgument: MPI is finalized.
Result<int> WorldCommunicator(int* argc, char*** argv, bool* started);

/// Finalizes MPI if it is initialized.
void EndMpi();

}  // namespace quire::comm
