// Replaces the MPI transport if Quire is built without MPI.
#include "comm/mpi/transport_factory.h"

namespace quire::comm {

Result<std::unique_ptr<Transport>> NewTransport(int, const TransportOptions&) {
  return Status(Code::kUnsupported, "this Quire was built without MPI (QUIRE_MPI=OFF)");
}

bool MpiIsRunning() {
  return false;
}

const char* MpiThreadLevelName() {
  return "built without MPI";
}

}  // namespace quire::comm
