/* Makes a program's plain MPI_Init ask for MPI_THREAD_MULTIPLE, so that the library answers other
 * ranks while the program computes.
 *
 * Layer      public; C99 and C++; includes <mpi.h>
 * Source     PapyrusKV's released interface
 * Threads    as MPI_Init */
#ifndef PAPYRUS_MPI_H_
#define PAPYRUS_MPI_H_

#include <mpi.h>
#include <stddef.h>

/* MPI_Init, with threads where the MPI at hand has them. */
static inline int papyrus_mpi_init(int* argc, char*** argv) {
  int provided = 0;
  return MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
}

#define MPI_Init(argc, argv) papyrus_mpi_init(argc, argv)

#endif /* PAPYRUS_MPI_H_ */
