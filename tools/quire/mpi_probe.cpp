// quire-mpi-probe: quire doctor, which links no MPI, starts it on two ranks by the launcher. Every
// rank prints one line: its number of ranks, the level of threads, and the library's version.
#include <mpi.h>

#include <cstdio>
#include <string>

namespace {

const char* NameOf(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    case MPI_THREAD_MULTIPLE:
      return "MPI_THREAD_MULTIPLE";
    default:
      return "unknown";
  }
}

std::string FirstLineOfVersion() {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(version, &length);
  const std::string text = version;
  return text.substr(0, text.find_first_of("\r\n"));
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Barrier(MPI_COMM_WORLD);
  std::printf("quire-mpi-probe: ranks %d, level %s, %s\n", ranks, NameOf(level),
              FirstLineOfVersion().c_str());
  MPI_Finalize();
  return 0;
}
