// The common part of main() of parallel programs: initializes and finalizes MPI; a failure ends all
// ranks.
#pragma once

#include <mpi.h>

#include <cstdio>

#include "quire/status.h"

namespace quire::examples {

/// Runs `job`, a Status(), between MPI_Init_thread and MPI_Finalize, and returns 0. If it fails on
/// a rank, that rank prints the reason and ends all ranks.
template <typename Job>
int ParallelMain(const char* program, Job job) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  const Status status = job();
  if (!status.ok()) {
    std::fprintf(stderr, "%s: %s\n", program, status.ToString().c_str());
    // mpiexec ends the other ranks if one ends without MPI_Finalize; srun does with
    // --kill-on-bad-exit. After MPI_Abort the mpiexec of Open MPI 4.1 sometimes waits for ever.
    return 1;
  }
  MPI_Finalize();
  return 0;
}

}  // namespace quire::examples
