// A rank of a real job dies by SIGKILL, or is stopped: the other ranks learn of it and go on.
//
//   mpi_kill_test MPIRUN      starts itself as a job of 3 ranks for each case
//
// Exit status 0 if all survivors gave the right answers in time. The launcher ends the job a second
// or two after a death, so the survivors write their results to files at once.
#include <mpi.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "comm/exchange/exchange.h"
#include "comm/mpi/transport_factory.h"
#include "io/files/machine.h"

namespace quire::comm {
namespace {

constexpr int kRanks = 3;
constexpr uint64_t kMs = 1'000'000;

Status Echo(int, Slice request, std::string* answer) {
  answer->assign(request);
  return Status();
}

bool IsFailure(const Status& status) {
  return status.code() == Code::kPeerFailed || status.code() == Code::kTimedOut;
}

// Returns "ok", or the first result of a survivor that was wrong.
std::string Survive(Exchange& exchange, int victim) {
  const uint64_t start_ns = io::RealClock().NowNs();
  if (!IsFailure(exchange.WaitSignal(1, {victim}))) return "a signal of the victim";
  if (!IsFailure(exchange.Ask(victim, 1, "x", {}, nullptr))) return "an answer of the victim";
  if (!IsFailure(exchange.Barrier())) return "a barrier without the victim";
  if (io::RealClock().NowNs() - start_ns > 4000 * kMs) return "late";
  return "ok";
}

int RunRank(const std::string& folder, const std::string& kind, int victim, int signal) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  TransportOptions options;
  options.kind = kind == "mpi" ? TransportKind::kMpi : TransportKind::kAuto;
  auto transport = NewTransport(MPI_Comm_c2f(MPI_COMM_WORLD), options);
  ExchangeOptions exchange_options;
  exchange_options.timeout_ms = 700;
  const auto exchange = Exchange::Create(std::move(*transport), exchange_options);
  exchange->Serve(1, Echo);
  if (!exchange->Barrier().ok()) return 1;
  const std::string file = folder + "/" + std::to_string(exchange->rank());
  if (exchange->rank() == victim) {
    std::ofstream(file) << ::getpid() << std::flush;
    ::kill(::getpid(), signal);
  }
  const std::string seen = Survive(*exchange, victim);
  std::ofstream(file) << seen << std::flush;
  // The rank that ends first may make the launcher end the others: wait until all have written.
  while (std::filesystem::exists(folder)) ::usleep(20'000);
  ::_exit(0);  // a job with a dead rank cannot finalize
}

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return text;
}

// As one word of a shell, whatever is in it.
std::string Word(const std::string& text) {
  std::string word = "'";
  for (const char letter : text) word += letter == '\'' ? "'\\''" : std::string(1, letter);
  return word + "'";
}

bool RunJob(const std::string& mpirun, const std::string& kind, int victim, int signal) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("quire-mpi-kill-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string arguments = Word(folder.string()) + " " + kind + " " + std::to_string(victim) +
                                " " + std::to_string(signal);
  // A shell around each rank, which outlives it: else MPICH's launcher ends the survivors at once.
  const std::string job =
      Word(mpirun) + " -n " + std::to_string(kRanks) +
      " sh -c '\"$0\" --rank \"$@\"; while test -d \"$1\"; do sleep 0.1; done' " +
      Word(std::filesystem::read_symlink("/proc/self/exe").string()) + " " + arguments + " >" +
      Word((folder / "output").string()) + " 2>&1 &";
  bool right = std::system(job.c_str()) == 0;
  // The survivors have 4 seconds, and the launcher as many to start them.
  bool complete = false;
  for (int i = 0; i < 400 && !complete; ++i) {
    ::usleep(50'000);
    complete = true;
    for (int rank = 0; rank < kRanks; ++rank) {
      complete = complete && !Read((folder / std::to_string(rank)).string()).empty();
    }
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::string seen = Read((folder / std::to_string(rank)).string());
    if (rank == victim) {
      if (signal == SIGSTOP && !seen.empty()) ::kill(std::stoi(seen), SIGKILL);
      continue;
    }
    if (seen == "ok") continue;
    right = false;
    std::fprintf(stderr, "%s, victim %d, signal %d: rank %d: %s\n", kind.c_str(), victim, signal,
                 rank, seen.empty() ? "no answer" : seen.c_str());
  }
  if (!right) (void)std::system(("cat " + Word((folder / "output").string()) + " >&2").c_str());
  std::filesystem::remove_all(folder);
  return right;
}

int RunAll(const std::string& mpirun) {
  bool right = true;
  for (const char* kind : {"auto", "mpi"}) {
    right = RunJob(mpirun, kind, 0, SIGKILL) && right;
    right = RunJob(mpirun, kind, 2, SIGKILL) && right;
    right = RunJob(mpirun, kind, 1, SIGSTOP) && right;
  }
  return right ? 0 : 1;
}

}  // namespace
}  // namespace quire::comm

int main(int argc, char** argv) {
  if (argc == 6 && std::string(argv[1]) == "--rank") {
    return quire::comm::RunRank(argv[2], argv[3], std::atoi(argv[4]), std::atoi(argv[5]));
  }
  if (argc != 2) {
    std::fprintf(stderr, "usage: mpi_kill_test MPIRUN\n");
    return 2;
  }
  return quire::comm::RunAll(argv[1]);
}
