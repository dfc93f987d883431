// The program of the README: every rank puts a greeting, and gets that of rank 0.
#include <quire/mpi.h>

#include <iostream>

int main(int argc, char** argv) {
  int threads;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
  const quire::Status status = []() -> quire::Status {
    QUIRE_ASSIGN_OR_RETURN(auto context, quire::OpenContext(MPI_COMM_WORLD, "hello-repository"));
    QUIRE_ASSIGN_OR_RETURN(auto greetings, context->Open("greetings", {}));
    QUIRE_RETURN_IF_ERROR(greetings->Put("rank " + std::to_string(context->rank()), "hello"));
    QUIRE_RETURN_IF_ERROR(greetings->Barrier(quire::Level::kMemTable));
    std::string value;
    QUIRE_RETURN_IF_ERROR(greetings->Get("rank 0", &value));
    std::cout << "rank 0 says " + value + " to rank " + std::to_string(context->rank()) + "\n";
    return greetings->Close();
  }();
  if (!status.ok()) std::cerr << status.ToString() << std::endl;
  return MPI_Finalize() != MPI_SUCCESS || !status.ok();
}
