// The program that tests/nodes/nodes_test.py runs on simulated nodes.
//
//   nodes_program where                 each rank prints its node, what it sees there, and the
//                                       transport by which Quire reaches the other ranks
//   nodes_program fill REPOSITORY       makes the database "db"; each rank puts kKeys pairs
//   nodes_program check REPOSITORY      opens it and reads all that the next rank has put
//   nodes_program open REPOSITORY       opens it, or makes it if it does not exist
//   nodes_program destroy REPOSITORY    destroys it
//   nodes_program write REPOSITORY MS   writes until a call fails, with deadlines of MS; then waits
//                                       to be killed
//   nodes_program stream MIB            the first rank sends MIB to the last one, by MPI
//
// Each rank prints its result in one line, and appends it to said-<rank> in its node's storage.
// Exit status: 0, or 4 if a call failed.
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "quire/mpi.h"
#include "tests/support/mpi_program.h"
#include "tests/support/small_database.h"

namespace {

constexpr int kKeys = 500;
constexpr int kExitFailed = 4;

using Time = std::chrono::steady_clock::time_point;

double SecondsSince(Time begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Prints in one write, so that the lines of several ranks do not mix. Also writes to the node's
// storage, for tests that cut the connection to the launcher.
void Say(int rank, const std::string& text) {
  const std::string line = "rank " + std::to_string(rank) + ": " + text + "\n";
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
  const char* const storage = ::getenv("QUIRE_NODES_STORAGE");
  if (storage == nullptr) return;
  std::ofstream(storage + ("/said-" + std::to_string(rank)), std::ios::app) << line;
}

int Fail(int rank, const char* what, const quire::Status& status) {
  Say(rank, std::string(what) + ": " + status.ToString());
  return kExitFailed;
}

std::string KeyOf(int rank, int i) {
  return "rank " + std::to_string(rank) + " key " + std::to_string(i);
}

std::string ValueOf(int rank, int i) {
  return KeyOf(rank, i) + std::string(static_cast<size_t>(i % 3 == 0 ? 3000 : i), 'v');
}

std::string NameOfHost() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

// Leaves a file in each place, then checks whose files are there.
int Where(int rank) {
  const std::vector<std::string> places = {::getenv("QUIRE_NODES_STORAGE"),
                                           ::getenv("QUIRE_NODES_SHARED"), "/dev/shm"};
  for (const std::string& place : places) {
    std::ofstream(place + "/was-here-" + std::to_string(rank)) << "rank " << rank;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  std::string text = "on " + NameOfHost();
  for (const std::string& place : places) {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(place)) {
      if (entry.path().filename().string().rfind("was-here-", 0) == 0) ++count;
    }
    text += ", " + place + " " + std::to_string(count);
  }
  std::ofstream elsewhere("/tmp/quire-was-here-" + std::to_string(rank));
  text += elsewhere.is_open() ? ", /tmp can be written" : "";
  auto context = quire::OpenContext(MPI_COMM_WORLD, places[0] + "/repository");
  if (!context.ok()) return Fail(rank, "context", context.status());
  Say(rank, text + ", " + (*context)->Description());
  return 0;
}

int Stream(int rank, int size, int mebibytes) {
  constexpr int kPiece = 1 << 20;
  std::vector<char> piece(kPiece, 'x');
  MPI_Barrier(MPI_COMM_WORLD);
  const Time begin = std::chrono::steady_clock::now();
  for (int i = 0; i < mebibytes; ++i) {
    if (rank == 0) MPI_Send(piece.data(), kPiece, MPI_CHAR, size - 1, 0, MPI_COMM_WORLD);
    if (rank == size - 1) {
      MPI_Recv(piece.data(), kPiece, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    const double bytes = static_cast<double>(mebibytes) * kPiece;
    Say(rank, "mbit per second: " + std::to_string(bytes * 8 / 1e6 / SecondsSince(begin)));
  }
  return 0;
}

quire::Status Fill(quire::Database& db, int rank) {
  for (int i = 0; i < kKeys; ++i) {
    QUIRE_RETURN_IF_ERROR(db.Put(KeyOf(rank, i), ValueOf(rank, i)));
  }
  QUIRE_RETURN_IF_ERROR(db.Barrier(quire::Level::kSsTable));
  return db.Close();
}

quire::Status Check(quire::Database& db, int rank) {
  for (int i = 0; i < kKeys; ++i) {
    std::string value;
    QUIRE_RETURN_IF_ERROR(db.Get(KeyOf(rank, i), &value));
    if (value != ValueOf(rank, i)) {
      return quire::Status(quire::Code::kCorruption, KeyOf(rank, i) + " has another value");
    }
  }
  return db.Close();
}

quire::Status Write(quire::Database& db, int rank) {
  for (int i = 0; true; i = (i + 1) % kKeys) {
    if (i == kKeys / 2) Say(rank, "writes");
    QUIRE_RETURN_IF_ERROR(db.Put(KeyOf(rank, i), ValueOf(rank, i)));
  }
}

quire::OpenMode ModeOf(const std::string& what) {
  if (what == "check") return quire::OpenMode::kMustExist;
  return what == "open" ? quire::OpenMode::kOpenOrCreate : quire::OpenMode::kMustNotExist;
}

int WithRepository(int rank, int size, const std::string& what, const char* repository,
                   int timeout_ms) {
  quire::ContextOptions context_options;
  if (timeout_ms > 0) context_options.timeout_ms = static_cast<uint64_t>(timeout_ms);
  auto context = quire::OpenContext(MPI_COMM_WORLD, repository, context_options);
  if (!context.ok()) return Fail(rank, "context", context.status());
  quire::Status status;
  if (what == "destroy") {
    status = (*context)->Destroy("db");
  } else {
    quire::DatabaseOptions options = quire::test::SmallDatabase(ModeOf(what));
    if (what == "write") options.consistency = quire::Consistency::kSequential;
    auto db = (*context)->Open("db", options);
    if (!db.ok()) return Fail(rank, "open", db.status());
    if (what == "fill") status = Fill(**db, rank);
    if (what == "check") status = Check(**db, (rank + 1) % size);
    if (what == "open") status = (*db)->Close();
    if (what == "write") status = Write(**db, rank);
  }
  if (!status.ok()) return Fail(rank, what.c_str(), status);
  Say(rank, what + ": done");
  return 0;
}

int Run(int rank, int size, int argc, char** argv) {
  const std::string what = argv[1];
  if (what == "where") return Where(rank);
  if (what == "stream") return Stream(rank, size, std::atoi(argv[2]));
  return WithRepository(rank, size, what, argv[2], argc > 3 ? std::atoi(argv[3]) : 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || (argc < 3 && std::strcmp(argv[1], "where") != 0)) {
    std::fprintf(stderr, "usage: %s where | fill|check|open|destroy|write|stream ARGUMENT...\n",
                 argv[0]);
    return 2;
  }
  const auto [rank, size] = quire::test::StartMpi(&argc, &argv);
  const int result = Run(rank, size, argc, argv);
  // A failed write has lost a rank. MPI_Finalize would wait for that rank, and a rank that ends
  // without it would end the others, which have not reported yet. So each rank stays until it is
  // killed.
  while (std::strcmp(argv[1], "write") == 0) ::pause();
  return quire::test::FinishMpi(result);
}
