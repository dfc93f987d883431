// All programs of this folder use these: main() of a parallel program, and a check of a result.
#pragma once

#include <quire/mpi.h>

#include <iostream>
#include <string>

namespace quire::examples {

/// Calls `job`, a Status(Context&), on every rank with a context over all of them. Returns the exit
/// status of the program. If the job fails on a rank, that rank prints the reason and ends all.
template <typename Job>
int RunRanks(int argc, char** argv, Job job) {
  int threads;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
  const Status status = [&]() -> Status {
    QUIRE_ASSIGN_OR_RETURN(auto context, OpenContext(MPI_COMM_WORLD, "concepts-repository"));
    return job(*context);
  }();
  if (!status.ok()) {
    std::cerr << status.ToString() << std::endl;
    return 1;  // without MPI_Finalize: mpiexec ends the other ranks (srun: --kill-on-bad-exit)
  }
  return MPI_Finalize() != MPI_SUCCESS;
}

/// Returns OK if `right`, else a failure that says which result is wrong.
inline Status Expect(bool right, const std::string& result) {
  return right ? Status() : Status(Code::kCorruption, "wrong result: " + result);
}

}  // namespace quire::examples
