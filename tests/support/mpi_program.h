// What main() of a program of several ranks begins and ends with.
//
// Threads: one; all calls are collective.
#ifndef QUIRE_TESTS_SUPPORT_MPI_PROGRAM_H_
#define QUIRE_TESTS_SUPPORT_MPI_PROGRAM_H_

#include <mpi.h>

#include "tests/support/node_end.h"

namespace quire::test {

/// A rank of MPI_COMM_WORLD, and how many there are.
struct WorldRank {
  int rank = 0;
  int size = 1;
};

/// MPI_Init_thread.
inline WorldRank StartMpi(int* argc, char*** argv, int thread_level = MPI_THREAD_MULTIPLE) {
  int provided = 0;
  MPI_Init_thread(argc, argv, thread_level, &provided);
  WorldRank self;
  MPI_Comm_rank(MPI_COMM_WORLD, &self.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &self.size);
  return self;
}

/// MPI_Finalize, and the exit status of main(): on all ranks the largest that any hands over.
/// On simulated nodes of MPICH the program ends here (node_end.h).
inline int FinishMpi(int status) {
  int largest = status;
  MPI_Allreduce(&status, &largest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  end_on_nodes(largest);
  MPI_Finalize();
  return largest;
}

}  // namespace quire::test

#endif  // QUIRE_TESTS_SUPPORT_MPI_PROGRAM_H_
