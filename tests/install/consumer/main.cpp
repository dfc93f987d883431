// A program that uses an installed Quire: puts, closes, opens again, gets. One rank or several.
//
//   consumer REPOSITORY
#include <quire/mpi.h>
#include <quire/version.h>

#include <cstdio>
#include <string>

namespace {

quire::Status Run(const char* repository) {
  const std::string key("key\0with NUL", 12);
  QUIRE_ASSIGN_OR_RETURN(auto context, quire::OpenContext(MPI_COMM_WORLD, repository));
  {
    QUIRE_ASSIGN_OR_RETURN(auto database, context->Open("numbers", {}));
    QUIRE_RETURN_IF_ERROR(database->Put(key, "42"));
    QUIRE_RETURN_IF_ERROR(database->Close());
  }
  QUIRE_ASSIGN_OR_RETURN(auto database, context->Open("numbers", {}));
  std::string value;
  QUIRE_RETURN_IF_ERROR(database->Get(key, &value));
  if (value != "42")
    return quire::Status(quire::Code::kCorruption, "the value is '" + value + "', not 42");
  if (database->Get("absent", &value).code() != quire::Code::kNotFound) {
    return quire::Status(quire::Code::kCorruption, "an absent key was found");
  }
  return database->Close();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const quire::Status status = Run(argc > 1 ? argv[1] : "consumer-repository");
  std::printf("%s\n", status.ok() ? "the consumer works" : status.ToString().c_str());
  std::printf("version %s\n", quire::Version());
  MPI_Finalize();
  return status.ok() ? 0 : 1;
}
