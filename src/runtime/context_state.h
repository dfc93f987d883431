/// The state that all open objects of one Context share: files, messages, background threads, the
/// memory limit.
///
/// Layer      runtime
/// Threads    the fields are set once; `mutex` guards those below it
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/threads/executor.h"
#include "comm/exchange/exchange.h"
#include "io/files/file_system.h"
#include "io/paths/made_paths.h"
#include "quire/database.h"
#include "runtime/channel.h"
#include "runtime/memory_budget.h"
#include "runtime/progress_queue.h"

namespace quire::runtime {

class Job;

/// An object that is open in a Context and works in the background there: a database.
class ProgressClient {
 public:
  virtual ~ProgressClient() = default;
  /// Sends waiting messages. The program's calls call it if there is no thread for this.
  virtual void Progress() = 0;
  /// Ends the object's background work before the Context is destroyed: none of it runs when this
  /// returns.
  virtual void Shutdown() = 0;
};

struct ContextState {
  io::FileSystem* fs = nullptr;
  std::string repository;
  ContextOptions options;
  /// shared with iterators, which may outlive the Context
  std::shared_ptr<base::Executor> executor;
  /// one thread, for jobs that may wait for the work of other jobs
  std::shared_ptr<base::Executor> blocking_executor;
  bool manual_background = false;  ///< both run only inside calls that wait
  std::unique_ptr<MemoryBudget> budget;
  /// Empty once the Context is destroyed. The last member, so that its handler ends before the
  /// objects that it serves are destroyed.
  std::unique_ptr<comm::Exchange> exchange;
  std::unique_ptr<ProgressQueue> progress_queue;
  std::string description;
  std::vector<uint64_t> machine_ids;  ///< by rank: io::MachineId

  int rank() const { return exchange->rank(); }
  int size() const { return exchange->size(); }
  bool OnThisMachine(int other) const {
    return machine_ids[static_cast<size_t>(other)] == machine_ids[static_cast<size_t>(rank())];
  }
  /// <repository>/<name>
  std::string DirectoryOf(const std::string& name) const { return repository + "/" + name; }
  /// Records in `made` that this call creates the directory of a database or dataset, unless it
  /// exists. Collective: called before any rank creates the directory, which other ranks may see as
  /// well.
  Status LookForDirectory(const std::string& directory, io::MadePaths* made) const;
  /// Creates the directory; also the repository, if another program, whose context was refused, has
  /// removed it again.
  Status MakeDirectory(const std::string& directory) const;
  /// Rank 0 holds it while it lists a directory of checkpoints for the next number, or publishes
  /// (renames) one in it: so that no listing misses a checkpoint or contains it twice.
  std::mutex checkpoints_mutex;

  /// Returns the next number for channels. Every rank takes the same numbers, whatever fails on it.
  uint32_t TakeNumber();
  /// Handles arrived messages and work that waits for calls, if there is no thread for it.
  void Progress();
  /// Ends all background work and the exchange. Not collective. Allocates no memory.
  void End();
  /// Waits for background work in progress, and drops the work that waits for calls. Such work
  /// holds a reference to the context, and the context owns the threads: so no thread may release
  /// the last reference.
  void EndBackground();
  /// Removes and returns the first client; null if there is none.
  ProgressClient* TakeProgressClient();

  std::mutex mutex;
  uint32_t last_number = 0;  ///< the same on all ranks: all take numbers in the same order
  std::vector<ProgressClient*> progress_clients;
  std::vector<std::shared_ptr<Job>> jobs;  ///< running ones, and some that have ended
};

/// The services of the machine that a Context uses; simulations provide their own.
struct Environment {
  Status prepared;               ///< an earlier failure of this rank: reported on all ranks
  io::FileSystem* fs = nullptr;  ///< null: the real one
  bool background_threads =
      true;  ///< false: background work is done inside calls, always in the same order
  uint64_t machine_bytes = 0;  ///< memory of this rank's machine; 0: ask the system
  uint64_t machine_id = 0;     ///< of this rank's machine, as io::MachineId; 0: ask the system
  std::string thread_level;    ///< of MPI, for the description; empty: there is no MPI
};

/// Creates the runtime of `repository` on this rank. Collective. `options` are those of the
/// program: environment variables and ranges are handled here.
Result<std::shared_ptr<ContextState>> NewContextState(const Environment& environment,
                                                      std::unique_ptr<comm::Transport> transport,
                                                      Slice repository,
                                                      const ContextOptions& options);

/// Returns `repository` as an absolute path (io::AbsolutePath), with a leading "$NAME" replaced by
/// that environment variable. kInvalidArgument: empty, or the variable is not set.
Result<std::string> ExpandRepository(const std::string& repository);

}  // namespace quire::runtime
