// heat: computes how a plate warms that a moving source heats, on any number of ranks, and stores
// the temperatures as versions in a stream for each rank. Watch them by the program heat_watch.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "../parallel_main.h"
#include "report.h"
#include "simulation.h"

namespace quire::heat {
namespace {

const std::map<std::string, StreamDeltas> kDeltas = {{"off", StreamDeltas::kOff},
                                                     {"auto", StreamDeltas::kAuto},
                                                     {"hash", StreamDeltas::kHash},
                                                     {"protect", StreamDeltas::kProtect},
                                                     {"watch", StreamDeltas::kWatch}};

// Sums over all ranks, on rank 0; of times the slowest rank's.
struct Totals {
  StreamStatistics stored;
  double seconds = 0;

  static Totals OfAllRanks(const Simulation& simulation) {
    const StreamStatistics mine = simulation.writer().Statistics();
    const double seconds = simulation.snapshot_seconds();
    const uint64_t counts[] = {mine.versions, mine.deltas, mine.object_bytes, mine.stored_bytes};
    uint64_t sums[std::size(counts)] = {};
    Totals all;
    MPI_Reduce(counts, sums, static_cast<int>(std::size(counts)), MPI_UINT64_T, MPI_SUM, 0,
               MPI_COMM_WORLD);
    MPI_Reduce(&seconds, &all.seconds, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    all.stored.versions = sums[0];
    all.stored.deltas = sums[1];
    all.stored.object_bytes = sums[2];
    all.stored.stored_bytes = sums[3];
    return all;
  }
};

Status PrintResult(const Settings& settings, const Simulation& simulation) {
  const Summary summary = simulation.SummarizeAll();
  const Totals all = Totals::OfAllRanks(simulation);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) return Status();
  QUIRE_ASSIGN_OR_RETURN(const std::string tracking, simulation.writer().Tracking(kFieldKey));
  nlohmann::ordered_json result = {{"ranks", simulation.grid().ranks()},
                                   {"grid", {simulation.grid().rows, simulation.grid().columns}},
                                   {"height", settings.plate.height},
                                   {"width", settings.plate.width},
                                   {"first_step", simulation.first_step()},
                                   {"steps", settings.steps},
                                   {"snapshots", simulation.writer().LastSnapshot()}};
  result.update(ToJson(settings.plate, summary));
  result.update({{"tracking", tracking},
                 {"versions", all.stored.versions},
                 {"deltas", all.stored.deltas},
                 {"object_bytes", all.stored.object_bytes},
                 {"stored_bytes", all.stored.stored_bytes},
                 {"snapshot_seconds", all.seconds}});
  std::printf("%s\n", result.dump().c_str());
  return Status();
}

Status Run(const Settings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Simulation> simulation,
                         Simulation::Open(MPI_COMM_WORLD, settings));
  QUIRE_RETURN_IF_ERROR(simulation->Run());
  QUIRE_RETURN_IF_ERROR(PrintResult(settings, *simulation));
  return simulation->Finish();
}

void AddOptions(CLI::App& app, Settings* settings) {
  app.add_option("--place", settings->place, "folder of the streams; on tmpfs or a file system")
      ->capture_default_str();
  app.add_option("--height", settings->plate.height, "rows of the plate")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--width", settings->plate.width, "columns of the plate")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--steps", settings->steps, "steps of the simulation")->capture_default_str();
  app.add_option("--every", settings->every, "steps from one snapshot to the next")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--keep", settings->keep, "newest snapshots that are kept, at least")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--deltas", settings->deltas, "off, auto, hash, protect or watch")
      ->transform(CLI::CheckedTransformer(kDeltas));
  app.add_option("--pause", settings->pause_ms, "[ms] after each snapshot")->capture_default_str();
  app.add_flag("--resume", settings->resume, "goes on from the newest snapshot of all ranks");
}

}  // namespace
}  // namespace quire::heat

int main(int argc, char** argv) {
  CLI::App app(
      "A plate that a moving source heats; each rank stores its temperatures in a stream.\n"
      "The last line of standard output is JSON.");
  quire::heat::Settings settings;
  quire::heat::AddOptions(app, &settings);
  CLI11_PARSE(app, argc, argv);
  return quire::examples::ParallelMain("heat", [&] { return quire::heat::Run(settings); });
}
