/* The C interface over the ranks of an MPI communicator.
 *
 * Layer      public; C99; includes <mpi.h>
 * Threads    collective */
#ifndef QUIRE_QUIRE_MPI_H_
#define QUIRE_QUIRE_MPI_H_

#include <mpi.h>

#include "quire/quire.h"

/* Opens a context over the ranks of `communicator`, which is duplicated and stays unchanged.
 * Collective. `options` may be null. QUIRE_INVALID_ARGUMENT: MPI is not initialized, or a reason of
 * quire_context_open. */
static inline int quire_context_open_mpi(MPI_Comm communicator, const char* repository,
                                         const quire_options* options, quire_context** context) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  return quire_context_open_fortran(initialized ? (int)MPI_Comm_c2f(communicator) : 0, repository,
                                    options, context);
}

#endif /* QUIRE_QUIRE_MPI_H_ */
