// quire-bench: what Quire does per second, beside what the machine and others do.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "commands.h"

namespace quire::bench {

std::string DefaultDirectory() {
  const char* directory = std::getenv("TMPDIR");
  return directory == nullptr || *directory == '\0' ? "/tmp" : directory;
}

namespace {

int Report(const Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "quire-bench: %s\n", status.ToString().c_str());
  return 1;
}

// If one rank fails, the job ends, because other ranks may be waiting for it. The launcher ends the
// job if a rank ends without MPI_Finalize; after MPI_Abort, the launcher of Open MPI 4.1 sometimes
// waits for ever.
int RunParallel(const Command& command) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  const int result = Report(command.run());
  if (result == 0) MPI_Finalize();
  return result;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Measures Quire. One line of JSON per case on standard output, everything else on standard "
      "error.\n"
      "basic, workload, small, idle, latency, cr, group, mdhim, kmer, partition (not its figure 7) "
      "and stream (its\nfigures 5, 6, 7, 10 and small) run on any number of ranks:\n"
      "mpiexec -n 2 quire-bench basic");
  app.require_subcommand(1);
  const std::vector<Command> commands = {
      AddBasic(app),     AddWorkload(app), AddEngine(app), AddIdle(app),  AddLatency(app),
      AddLimits(app),    AddKmer(app),     AddCr(app),     AddGroup(app), AddMdhim(app),
      AddPartition(app), AddStream(app),   AddSmall(app)};
  CLI11_PARSE(app, argc, argv);
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    return command.parallel ? RunParallel(command) : Report(command.run());
  }
  return 1;
}

}  // namespace
}  // namespace quire::bench

int main(int argc, char** argv) {
  return quire::bench::Main(argc, argv);
}
