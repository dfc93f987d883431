// particles: moves particles through periodic boxes, one box for each rank, and writes their
// positions into a dataset, one epoch for each step. The program trajectory reads it.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "../parallel_main.h"
#include "quire/dataset.h"
#include "quire/mpi.h"
#include "quire/option_table.h"
#include "simulation.h"

namespace quire::particles {
namespace {

struct Settings {
  Scenario scenario;
  uint64_t steps = 10;
  uint64_t every = 1;
  std::string repository = "particles.quire";
  std::string dataset = "steps";
  std::string format = "ribbon";
};

// The counts of one rank, and of all ranks together.
struct Totals {
  uint64_t left = 0;  // particles that went to another rank, in all steps
  DatasetWriterStatistics written;
  double seconds = 0;  // in epochs

  // On rank 0 only: sums, and the time of the slowest rank.
  Totals OfAllRanks() const {
    const uint64_t mine[] = {left,
                             written.pairs,
                             written.pair_bytes,
                             written.sent_bytes,
                             written.table_bytes,
                             written.map_bytes};
    uint64_t sums[std::size(mine)] = {};
    Totals all;
    MPI_Reduce(mine, sums, static_cast<int>(std::size(mine)), MPI_UINT64_T, MPI_SUM, 0,
               MPI_COMM_WORLD);
    MPI_Reduce(&seconds, &all.seconds, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    all.left = sums[0];
    all.written.pairs = sums[1];
    all.written.pair_bytes = sums[2];
    all.written.sent_bytes = sums[3];
    all.written.table_bytes = sums[4];
    all.written.map_bytes = sums[5];
    return all;
  }
};

// All particles of this rank into one epoch; rank 0 adds the scenario.
Status WriteEpoch(DatasetWriter& writer, uint64_t step, const Settings& settings,
                  const Simulation& simulation, bool is_first_rank) {
  QUIRE_RETURN_IF_ERROR(writer.BeginEpoch(step));
  if (is_first_rank) QUIRE_RETURN_IF_ERROR(writer.Put(kScenarioKey, ToJson(settings.scenario)));
  std::string value;
  for (const Particle& particle : simulation.particles()) {
    EncodeState(particle, settings.scenario.padding_bytes, &value);
    QUIRE_RETURN_IF_ERROR(writer.Put(KeyOf(particle.id), value));
  }
  return writer.EndEpoch();
}

Result<Totals> Simulate(Context& context, const Settings& settings) {
  DatasetOptions options;
  QUIRE_RETURN_IF_ERROR(OptionTable::Set("dataset_format", settings.format, &options));
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<DatasetWriter> writer,
                         DatasetWriter::Open(context, settings.dataset, options));
  if (writer->LastEpoch().has_value()) {
    return Status(Code::kInvalidArgument,
                  context.repository() + "/" + settings.dataset +
                      " has epochs of another run: remove it, or give another --dataset");
  }
  Simulation simulation(MPI_COMM_WORLD, settings.scenario);
  Totals totals;
  for (uint64_t step = 0; step <= settings.steps; ++step) {
    if (step > 0) simulation.Step();
    if (step % settings.every != 0) continue;
    const double begin = MPI_Wtime();
    QUIRE_RETURN_IF_ERROR(WriteEpoch(*writer, step, settings, simulation, context.rank() == 0));
    totals.seconds += MPI_Wtime() - begin;
  }
  QUIRE_RETURN_IF_ERROR(writer->Finish());
  totals.left = simulation.left_count();
  totals.written = writer->Statistics();
  return totals;
}

void PrintResult(const Settings& settings, const Totals& all) {
  const auto ratio = [](uint64_t part, double whole) {
    return whole > 0 ? static_cast<double>(part) / whole : 0;
  };
  const Scenario& scenario = settings.scenario;
  const double moves = static_cast<double>(scenario.particle_count() * settings.steps);
  const nlohmann::ordered_json result = {
      {"ranks", scenario.ranks},
      {"particles", scenario.particle_count()},
      {"steps", settings.steps},
      {"epochs", settings.steps / settings.every + 1},
      {"format", settings.format},
      {"share_moved", ratio(all.left, moves)},
      {"pairs", all.written.pairs},
      {"pair_bytes", all.written.pair_bytes},
      {"sent_bytes", all.written.sent_bytes},
      {"table_bytes", all.written.table_bytes},
      {"map_bytes", all.written.map_bytes},
      {"write_seconds", all.seconds},
      {"pairs_per_second", ratio(all.written.pairs, all.seconds)}};
  std::printf("%s\n", result.dump().c_str());
}

Status Run(Settings settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Context> context,
                         OpenContext(MPI_COMM_WORLD, settings.repository));
  settings.scenario.ranks = static_cast<uint32_t>(context->size());
  if (context->rank() == 0) {
    std::fprintf(stderr, "particles: %d ranks, %s\n", context->size(),
                 context->Description().c_str());
  }
  QUIRE_ASSIGN_OR_RETURN(const Totals totals, Simulate(*context, settings));
  const Totals all = totals.OfAllRanks();
  if (context->rank() == 0) PrintResult(settings, all);
  return Status();
}

void AddOptions(CLI::App& app, Settings* settings) {
  app.add_option("--particles", settings->scenario.particles_per_rank, "particles of each rank")
      ->check(CLI::Range(1, 1 << 28))
      ->capture_default_str();
  app.add_option("--steps", settings->steps, "steps of the simulation")->capture_default_str();
  app.add_option("--every", settings->every, "steps from one epoch to the next")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--movers", settings->scenario.movers,
                 "share of the particles that go to another rank in a step")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--padding", settings->scenario.padding_bytes, "bytes behind the 48 of each value")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--seed", settings->scenario.seed, "another one: other ways")
      ->capture_default_str();
  app.add_option("--format", settings->format, "base, pointer, bloom, cuckoo or ribbon")
      ->capture_default_str();
  app.add_option("--repository", settings->repository, "folder for datasets")
      ->capture_default_str();
  app.add_option("--dataset", settings->dataset, "the dataset's name")->capture_default_str();
}

}  // namespace
}  // namespace quire::particles

int main(int argc, char** argv) {
  CLI::App app(
      "Particles in periodic boxes, one for each rank; each step is an epoch of a dataset.\n"
      "The last line of standard output is JSON.");
  quire::particles::Settings settings;
  AddOptions(app, &settings);
  CLI11_PARSE(app, argc, argv);
  return quire::examples::ParallelMain("particles", [&] { return Run(settings); });
}
