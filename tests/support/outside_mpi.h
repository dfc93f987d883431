// Keeps other threads out of MPI while MPI_Finalize begins. MPICH 4.0 locks no more before it
// deletes the attributes of MPI_COMM_SELF: a thread that is inside MPI at that moment leaves
// MPICH's lock locked, and MPI_Finalize aborts ("pthread_mutex_destroy: Device or resource busy").
// MPI demands that no other thread calls it then, and so does Quire (quire/mpi.h).
//
// What a thread of Quire calls while no message moves goes through the gate. Include this once in a
// program.
#pragma once

#include <mpi.h>

#include <mutex>

namespace quire::test {

inline std::mutex mpi_gate;

inline int OpenMpiGate(MPI_Comm, int, void*, void*) {
  mpi_gate.unlock();
  return MPI_SUCCESS;
}

/// MPI_Finalize. No other thread is inside MPI when it begins; from the deletion of attributes on
/// they may call it again. That of MPI_COMM_SELF that was set last is deleted first.
inline void FinalizeWhileOthersWait() {
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &OpenMpiGate, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
  mpi_gate.lock();
  MPI_Finalize();
}

}  // namespace quire::test

extern "C" {
int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  const std::lock_guard lock(quire::test::mpi_gate);
  return PMPI_Test(request, done, status);
}
int MPI_Testsome(int count, MPI_Request requests[], int* done, int indices[],
                 MPI_Status statuses[]) {
  const std::lock_guard lock(quire::test::mpi_gate);
  return PMPI_Testsome(count, requests, done, indices, statuses);
}
}
