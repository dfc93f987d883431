#include "ranks.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "comm/mpi/transport_factory.h"
#include "commands.h"
#include "kv/database/context.h"
#include "quire/mpi.h"

namespace quire::bench {
namespace {

// The first rank creates the folder; all ranks return its path.
Result<std::string> MakeFolder(const std::string& parent,
                               std::unique_ptr<TemporaryDirectory>* directory) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Status status;
  std::string path;
  if (rank == 0) {
    Result<TemporaryDirectory> made = TemporaryDirectory::Make(parent);
    status = made.status();
    if (made.ok()) {
      *directory = std::make_unique<TemporaryDirectory>(std::move(*made));
      path = (*directory)->path();
    }
  }
  auto size = static_cast<int>(path.size());
  MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD);
  path.resize(static_cast<size_t>(size));
  MPI_Bcast(path.data(), size, MPI_CHAR, 0, MPI_COMM_WORLD);
  QUIRE_RETURN_IF_ERROR(status);
  if (path.empty()) return Status(Code::kPeerFailed, "rank 0 could not make a folder");
  return path;
}

// Opens a context like OpenContext, over another file system.
Result<std::unique_ptr<Context>> OpenOver(io::FileSystem* fs, const std::string& repository,
                                          const ContextOptions& options) {
  comm::TransportOptions transport_options;
  if (options.transport == TransportChoice::kMpi) {
    transport_options.kind = comm::TransportKind::kMpi;
  }
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<comm::Transport> transport,
                         comm::NewTransport(MPI_Comm_c2f(MPI_COMM_WORLD), transport_options));
  runtime::Environment environment;
  environment.fs = fs;
  environment.thread_level = comm::MpiThreadLevelName();
  return kv::NewContext(environment, std::move(transport), repository, options);
}

}  // namespace

void AddParallelOptions(CLI::App& app, ParallelSettings* settings) {
  settings->directory = DefaultDirectory();
  app.add_option("--directory", settings->directory, "where to write")->capture_default_str();
  app.add_option("--transport", settings->transport,
                 "auto: shared memory within a node; mpi: MPI everywhere")
      ->check(CLI::IsMember({"auto", "mpi"}))
      ->capture_default_str();
  app.add_option("--memory-bytes", settings->memory_bytes, "limit of each rank; 0: by machine")
      ->capture_default_str();
  app.add_option("--repetitions", settings->repetitions, "medians are told")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void AddKeyBytes(CLI::App& app, size_t* key_bytes, int bytes_min) {
  app.add_option("--key-bytes", *key_bytes, "size of keys")
      ->check(CLI::Range(bytes_min, 65536))
      ->capture_default_str();
}

std::vector<std::string> SearchNames() {
  return {"sequential", "binary", "tagged"};
}

SearchMode SearchOf(const std::string& name) {
  if (name == "sequential") return SearchMode::kSequential;
  return name == "binary" ? SearchMode::kBinary : SearchMode::kTagged;
}

Result<std::unique_ptr<Ranks>> Ranks::Open(const ParallelSettings& settings, io::FileSystem* fs) {
  std::unique_ptr<Ranks> ranks(new Ranks(settings));
  QUIRE_ASSIGN_OR_RETURN(ranks->folder_, MakeFolder(settings.directory, &ranks->directory_));
  ContextOptions options;
  options.transport = settings.transport == "mpi" ? TransportChoice::kMpi : TransportChoice::kAuto;
  options.memory_bytes = settings.memory_bytes;
  const std::string repository = ranks->folder_ + "/repository";
  QUIRE_ASSIGN_OR_RETURN(ranks->context_, fs == nullptr
                                              ? OpenContext(MPI_COMM_WORLD, repository, options)
                                              : OpenOver(fs, repository, options));
  if (ranks->IsFirst()) {
    Say(std::to_string(ranks->size()) + " ranks, " + ranks->context().Description());
  }
  return ranks;
}

// The first rank's folder is removed when no rank uses it any more.
Ranks::~Ranks() {
  context_.reset();
  MPI_Barrier(MPI_COMM_WORLD);
}

Result<double> Ranks::Reduce(double value, MPI_Op operation) {
  QUIRE_RETURN_IF_ERROR(context_->Barrier());
  double result = 0;
  MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, operation, MPI_COMM_WORLD);
  return result;
}

Result<std::vector<double>> Ranks::Gather(const std::vector<double>& samples) {
  QUIRE_RETURN_IF_ERROR(context_->Barrier());
  const auto count = static_cast<int>(samples.size());
  std::vector<int> counts(static_cast<size_t>(size()));
  MPI_Gather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::vector<int> places(counts.size(), 0);
  int total = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    places[i] = total;
    total += counts[i];
  }
  std::vector<double> all(IsFirst() ? static_cast<size_t>(total) : 0);
  MPI_Gatherv(samples.data(), count, MPI_DOUBLE, all.data(), counts.data(), places.data(),
              MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return all;
}

void PrintCase(Ranks& ranks, const std::string& bench, Json params, const Json& results) {
  if (!ranks.IsFirst()) return;
  params["transport"] = ranks.settings().transport;
  params["ranks"] = ranks.size();
  params["repetitions"] = ranks.settings().repetitions;
  params["storage"] = ranks.storage();
  PrintCase(bench, params, results);
}

}  // namespace quire::bench
