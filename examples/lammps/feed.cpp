// feed: writes the dumps of LAMMPS into a dataset, as LAMMPS itself could do: each rank puts the
// atoms of the same rank of LAMMPS, in one epoch for each dumped step.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include "../parallel_main.h"
#include "dump.h"
#include "quire/dataset.h"
#include "quire/mpi.h"
#include "quire/option_table.h"

namespace quire::lammps {
namespace {

struct Settings {
  std::string dumps;
  std::string repository = "melt.quire";
  std::string dataset = "atoms";
  std::string format = "ribbon";
};

// Checks that LAMMPS ran on as many ranks as this program.
Status CheckRanks(const Settings& settings, uint64_t step, int ranks) {
  const std::string last = DumpPath(settings.dumps, ranks - 1, step);
  const std::string more = DumpPath(settings.dumps, ranks, step);
  const bool has_last = std::ifstream(last).good();
  if (has_last && !std::ifstream(more).good()) return Status();
  return Status(Code::kInvalidArgument, settings.dumps + " is not of " + std::to_string(ranks) +
                                            " ranks: " + (has_last ? more : last) +
                                            (has_last ? " is there" : " is not there") +
                                            "; start feed on as many ranks as LAMMPS");
}

Status WriteEpoch(DatasetWriter& writer, uint64_t step, const std::string& path) {
  std::ifstream file(path);
  if (!file) return Status(Code::kIo, path + ": cannot be read");
  QUIRE_ASSIGN_OR_RETURN(const std::vector<particles::Particle> atoms, ReadAtoms(file, path, step));
  QUIRE_RETURN_IF_ERROR(writer.BeginEpoch(step));
  std::string value;
  for (const particles::Particle& atom : atoms) {
    particles::EncodeState(atom, 0, &value);
    QUIRE_RETURN_IF_ERROR(writer.Put(particles::KeyOf(atom.id), value));
  }
  return writer.EndEpoch();
}

Status Feed(const Settings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Context> context,
                         OpenContext(MPI_COMM_WORLD, settings.repository));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<uint64_t> steps, StepsIn(settings.dumps));
  QUIRE_RETURN_IF_ERROR(CheckRanks(settings, steps.front(), context->size()));
  DatasetOptions options;
  QUIRE_RETURN_IF_ERROR(OptionTable::Set("dataset_format", settings.format, &options));
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<DatasetWriter> writer,
                         DatasetWriter::Open(*context, settings.dataset, options));
  for (const uint64_t step : steps) {
    QUIRE_RETURN_IF_ERROR(
        WriteEpoch(*writer, step, DumpPath(settings.dumps, context->rank(), step)));
  }
  QUIRE_RETURN_IF_ERROR(writer->Finish());
  if (context->rank() == 0) {
    std::printf("fed %zu steps into %s/%s\n", steps.size(), context->repository().c_str(),
                settings.dataset.c_str());
  }
  return Status();
}

}  // namespace
}  // namespace quire::lammps

int main(int argc, char** argv) {
  CLI::App app(
      "Writes the dumps of in.melt into a dataset, one epoch for each step. Start it on as many\n"
      "ranks as LAMMPS had.");
  quire::lammps::Settings settings;
  app.add_option("DUMPS", settings.dumps, "folder with melt.<rank>.<step>.dump")->required();
  app.add_option("--repository", settings.repository, "folder for datasets")->capture_default_str();
  app.add_option("--dataset", settings.dataset, "the dataset's name")->capture_default_str();
  app.add_option("--format", settings.format, "base, pointer, bloom, cuckoo or ribbon")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return quire::examples::ParallelMain("feed", [&] { return quire::lammps::Feed(settings); });
}
