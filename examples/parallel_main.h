// The common part of main() of parallel programs: initializes and finalizes MPI; a failure ends all
// ranks.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <thread>

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
    // MPI_Abort ends all ranks. The failing rank must have printed the reason before, and a
    // launcher drops output that it has not read by then.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}

}  // namespace quire::examples
