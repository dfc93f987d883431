/* How a job ends on simulated nodes (tests/nodes/cluster.py) under MPICH: without MPI_Finalize.
 *
 * MPICH 4.0 goes over UCX's TCP between nodes, and its MPI_Finalize may wait for ever for a rank
 * that has left. Its launcher fails if the ranks of one node have ended before those of another. So
 * rank 0 writes the status of all into the file QUIRE_NODES_ENDED, and cluster.py believes that.
 *
 * C and C++. Threads: one; the call is collective. */
#ifndef QUIRE_TESTS_SUPPORT_NODE_END_H_
#define QUIRE_TESTS_SUPPORT_NODE_END_H_

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program with `status`, the same on all ranks. Returns if no node needs that. */
static inline void end_on_nodes(int status) {
#ifdef MPICH_NUMVERSION
  const char* const path = getenv("QUIRE_NODES_ENDED");
  int rank = 0;
  if (path == NULL) return;
  fflush(NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    FILE* const file = fopen(path, "w");
    if (file == NULL || fprintf(file, "%d\n", status) < 0 || fclose(file) != 0) {
      perror(path);
      _Exit(1);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  _Exit(status);
#else
  (void)status;
#endif
}

#endif /* QUIRE_TESTS_SUPPORT_NODE_END_H_ */
