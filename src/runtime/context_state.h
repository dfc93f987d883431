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

#include "base/executor.h"
#include "comm/exchange/exchange.h"
#include "io/files/file_system.h"
#include "io/paths/made_paths.h"
#include "quire/database.h"
#include "runtime/channel.h"
#include "runtime/memory_budget.h"
#include "runtime/progress_queue.h"

namespace quire::runtime {

class Job;

/// What is open in a Context and works in the background there: a database.
class ProgressClient {
 public:
  virtual ~ProgressClient() = default;
  /// Sends waiting messages if there is no thread for it: from the program's calls.
  virtual void Progress() = 0;
  /// Nothing of it runs any more when this returns. The Context goes.
  virtual void Shutdown() = 0;
};

struct ContextState {
  io::FileSystem* fs = nullptr;
  std::string repository;
  ContextOptions options;
  /// shared with iterators, which may outlive the Context
  std::shared_ptr<base::Executor> executor;
  /// one thread, for jobs that may wait for the others' work
  std::shared_ptr<base::Executor> blocking_executor;
  bool manual_background = false;  ///< both run only inside calls that wait
  std::unique_ptr<MemoryBudget> budget;
  /// Empty once the Context is gone. Last: its handler ends before what it serves goes.
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
  /// Collective, before any rank makes the directory of a database or dataset, which others may see
  /// as well: notes in `made` that it is this call's, unless it is there.
  Status LookForDirectory(const std::string& directory, io::MadePaths* made) const;
  /// Makes it, and the repository if another program took that back: one whose context was refused.
  Status MakeDirectory(const std::string& directory) const;
  /// Rank 0: held while a directory of checkpoints is listed for the next number, or one in it is
  /// published, which has another name then: so that no listing misses it or sees it twice.
  std::mutex checkpoints_mutex;

  /// The next number for channels. Every rank takes the same ones, whatever fails on it.
  uint32_t TakeNumber();
  /// Handles arrived messages and work that waits for calls, if there is no thread for it.
  void Progress();
  /// Ends all that runs in the background, and the exchange. Not collective. Needs no memory.
  void End();
  /// Waits for what is under way in the background, and drops the work that waits for calls. They
  /// hold the context, and the context its threads: none of those may be the last that lets go.
  void EndBackground();
  /// The first, which is on the list no more; null: there is none.
  ProgressClient* TakeProgressClient();

  std::mutex mutex;
  uint32_t last_number = 0;  ///< the same on all ranks: they are taken by all, in one order
  std::vector<ProgressClient*> progress_clients;
  std::vector<std::shared_ptr<Job>> jobs;  ///< those under way, and some that have ended
};

/// The services of the machine that a Context uses; simulations provide their own.
struct Environment {
  Status prepared;               ///< an earlier failure of this rank: reported on all ranks
  io::FileSystem* fs = nullptr;  ///< null: the real one
  bool background_threads =
      true;  ///< false: background work is done inside calls, in the same order each time
  uint64_t machine_bytes = 0;  ///< memory of this rank's machine; 0: asks it
  uint64_t machine_id = 0;     ///< of this rank's machine, as io::MachineId; 0: asks it
  std::string thread_level;    ///< of MPI, for the description; empty: there is no MPI
};

/// The runtime of `repository` on this rank. Collective. `options` are as the program gave them:
/// environment variables and ranges are seen to here.
Result<std::shared_ptr<ContextState>> NewContextState(const Environment& environment,
                                                      std::unique_ptr<comm::Transport> transport,
                                                      Slice repository,
                                                      const ContextOptions& options);

/// `repository` with a leading "$NAME" replaced by that environment variable, from the root
/// (io::AbsolutePath). kInvalidArgument: empty, or the variable is not set.
Result<std::string> ExpandRepository(const std::string& repository);

}  // namespace quire::runtime
