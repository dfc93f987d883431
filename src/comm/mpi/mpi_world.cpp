#include "comm/mpi/mpi_world.h"

#include <mpi.h>

#include "comm/mpi/mpi_session.h"
#include "comm/mpi/transport_factory.h"

namespace quire::comm {

Result<int> WorldCommunicator(int* argc, char*** argv, bool* started) {
  *started = false;
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized == 0) {
    int provided = MPI_THREAD_SINGLE;
    QUIRE_RETURN_IF_ERROR(
        MpiStatus(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread"));
    *started = true;
  }
  if (!MpiIsRunning()) {
    return Status(Code::kInvalidArgument, "MPI is finalized already; begin before MPI_Finalize");
  }
  return static_cast<int>(MPI_Comm_c2f(MPI_COMM_WORLD));
}

void EndMpi() {
  if (MpiIsRunning()) MPI_Finalize();
}

}  // namespace quire::comm
