/// MPI_COMM_WORLD, and initializing and finalizing MPI for programs that leave this to the library.
///
/// Layer      comm
/// Threads    one thread
#pragma once

#include "quire/status.h"

namespace quire::comm {

/// Returns MPI_COMM_WORLD as a Fortran handle. Initializes MPI with MPI_THREAD_MULTIPLE if the
/// program has not done so, and then sets `*started`. `argc` and `argv` may be null.
/// kInvalidArgument: MPI is finalized.
Result<int> WorldCommunicator(int* argc, char*** argv, bool* started);

/// Finalizes MPI if it is initialized.
void EndMpi();

}  // namespace quire::comm
