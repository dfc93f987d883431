// trajectory: reads the dataset of particles (or examples/lammps) without MPI: prints the
// trajectory of a particle, or compares the trajectories of many with the computed ones.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "oracle.h"

namespace quire::particles {
namespace {

struct Settings {
  std::string dataset;
  uint64_t id = 0;
  uint64_t count = 100;
  uint64_t seed = 1;
};

Status Print(const Settings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const auto reader, DatasetReader::Open(settings.dataset));
  std::vector<DatasetValue> values;
  const Status status = reader->GetTrajectory(KeyOf(settings.id), &values);
  if (status.code() == Code::kNotFound) {
    return Status(Code::kNotFound, "no epoch has a particle " + std::to_string(settings.id));
  }
  QUIRE_RETURN_IF_ERROR(status);
  std::printf("epoch\trank\tx\ty\tz\tvx\tvy\tvz\n");
  for (const DatasetValue& value : values) {
    Particle particle;
    QUIRE_RETURN_IF_ERROR(DecodeState(value.value, &particle));
    std::printf("%llu\t%u", static_cast<unsigned long long>(value.epoch), value.rank);
    for (const double number : particle.position) std::printf("\t%.17g", number);
    for (const double number : particle.velocity) std::printf("\t%.17g", number);
    std::printf("\n");
  }
  return Status();
}

Status Check(const Settings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const auto reader, DatasetReader::Open(settings.dataset));
  QUIRE_ASSIGN_OR_RETURN(const Scenario scenario, ReadScenario(*reader));
  const std::vector<uint64_t> ids = ChooseParticles(scenario, settings.count, settings.seed);
  const DatasetReaderStatistics before = reader->Statistics();
  const auto begin = std::chrono::steady_clock::now();
  QUIRE_RETURN_IF_ERROR(CheckTrajectories(*reader, scenario, ids));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const DatasetReaderStatistics after = reader->Statistics();
  const auto queries = static_cast<double>(after.queries - before.queries);
  const auto per_query = [queries](uint64_t last, uint64_t first) {
    return static_cast<double>(last - first) / queries;
  };
  const nlohmann::ordered_json result = {
      {"trajectories", ids.size()},
      {"epochs", reader->Epochs().size()},
      {"queries", after.queries - before.queries},
      {"partitions_per_query", per_query(after.partitions, before.partitions)},
      {"false_candidates_per_query", per_query(after.false_candidates, before.false_candidates)},
      {"reads_per_query", per_query(after.reads, before.reads)},
      {"bytes_read_per_query", per_query(after.bytes_read, before.bytes_read)},
      {"seconds", seconds.count()}};
  std::printf("%s\n", result.dump().c_str());
  return Status();
}

}  // namespace
}  // namespace quire::particles

int main(int argc, char** argv) {
  using namespace quire::particles;
  CLI::App app("Trajectories of particles, from a dataset.");
  app.require_subcommand(1);
  Settings settings;
  CLI::App* print = app.add_subcommand("print", "The way of a particle, one line for each epoch.");
  print->add_option("DATASET", settings.dataset, "its directory")->required();
  print->add_option("ID", settings.id, "of the particle")->required();
  CLI::App* check = app.add_subcommand(
      "check",
      "Compares trajectories with where the particles must have been. Fails if one differs.");
  check->add_option("DATASET", settings.dataset, "its directory, written by particles")->required();
  check->add_option("--count", settings.count, "trajectories; so many or more than particles: all")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  check->add_option("--seed", settings.seed, "chooses them")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const quire::Status status = print->parsed() ? Print(settings) : Check(settings);
  if (status.ok()) return 0;
  std::fprintf(stderr, "trajectory: %s\n", status.ToString().c_str());
  return 1;
}
