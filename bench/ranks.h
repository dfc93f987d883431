/// The ranks of a parallel benchmark: a repository of their own, sums and maxima over them.
///
/// Layer      bench
/// Threads    one thread per rank; all calls are collective
#pragma once

#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "quire/database.h"
#include "quire/status.h"
#include "report.h"
#include "samples.h"
#include "workspace.h"

namespace CLI {
class App;
}

namespace quire::bench {

/// The settings of all parallel benchmarks.
struct ParallelSettings {
  std::string directory;
  std::string transport = "auto";
  uint64_t memory_bytes = 0;  ///< of each rank; 0: the library's choice
  int repetitions = 3;
};

/// Adds the options of `settings` to `app`.
void AddParallelOptions(CLI::App& app, ParallelSettings* settings);
/// Adds --key-bytes to `app`, from `bytes_min` on.
void AddKeyBytes(CLI::App& app, size_t* key_bytes, int bytes_min = 4);

/// Returns the names of the ways to search tables; below, the way with a name.
std::vector<std::string> SearchNames();
SearchMode SearchOf(const std::string& name);

/// The ranks, with a Context on a repository that is removed at the end.
class Ranks {
 public:
  /// Opens the context. `fs` (null: the machine's) must outlive the ranks. Errors  those of
  /// OpenContext, and of creating the repository on rank 0.
  static Result<std::unique_ptr<Ranks>> Open(const ParallelSettings& settings,
                                             io::FileSystem* fs = nullptr);
  ~Ranks();

  Context& context() { return *context_; }
  const ParallelSettings& settings() const { return settings_; }
  int rank() const { return context_->rank(); }
  int size() const { return context_->size(); }
  bool IsFirst() const { return rank() == 0; }
  /// The repository's folder.
  const std::string& folder() const { return folder_; }
  /// "ext4", "tmpfs", ...
  std::string storage() const { return FileSystemName(folder_); }

  /// Returns the maximum over all ranks. (Context::Barrier comes first, because a rank that waits
  /// in MPI might not answer other ranks.)
  Result<double> Max(double value) { return Reduce(value, MPI_MAX); }
  Result<double> Sum(double value) { return Reduce(value, MPI_SUM); }
  /// Returns the seconds of `work`, which all ranks begin together, on the slowest rank. Errors
  /// those of `work`.
  template <typename Work>
  Result<double> Time(const Work& work) {
    QUIRE_RETURN_IF_ERROR(context_->Barrier());
    const Stopwatch watch;
    QUIRE_RETURN_IF_ERROR(work());
    return Max(watch.Seconds());
  }
  /// Returns the samples of all ranks, on the first rank.
  Result<std::vector<double>> Gather(const std::vector<double>& samples);

 private:
  explicit Ranks(const ParallelSettings& settings) : settings_(settings) {}
  Result<double> Reduce(double value, MPI_Op operation);

  const ParallelSettings settings_;
  std::unique_ptr<TemporaryDirectory> directory_;  // on the first rank
  std::string folder_;
  std::unique_ptr<Context> context_;
};

/// Prints a case on the first rank. Adds to `params` those of all parallel benchmarks: the
/// transport, the number of ranks and of repetitions, the storage.
void PrintCase(Ranks& ranks, const std::string& bench, Json params, const Json& results);

}  // namespace quire::bench
