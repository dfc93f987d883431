/// What the databases of one Context share: files, messages, background threads, the memory limit.
///
/// Layer      kv
/// Threads    the fields are set once; `mutex` guards those below it
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/executor.h"
#include "comm/exchange.h"
#include "io/file_system.h"
#include "kv/errands.h"
#include "kv/memory_budget.h"
#include "quire/database.h"

namespace quire::kv {

class DatabaseImpl;
class Job;

struct Core {
  io::FileSystem* fs = nullptr;
  std::string repository;
  ContextOptions options;
  /// shared with iterators, which may outlive the Context
  std::shared_ptr<base::Executor> executor;
  /// one thread, for jobs that may wait for the others' work
  std::shared_ptr<base::Executor> transfers;
  bool manual_background = false;  ///< both run only inside calls that wait
  std::unique_ptr<MemoryBudget> budget;
  /// Empty once the Context is gone. Last: its handler ends before what it serves goes.
  std::unique_ptr<comm::Exchange> exchange;
  std::unique_ptr<Errands> errands;
  std::string description;
  std::vector<uint64_t> machine_ids;  ///< by rank: io::MachineId

  int rank() const { return exchange->rank(); }
  int size() const { return exchange->size(); }
  bool OnThisMachine(int other) const {
    return machine_ids[static_cast<size_t>(other)] == machine_ids[static_cast<size_t>(rank())];
  }
  /// <repository>/<name>
  std::string DirectoryOf(const std::string& name) const { return repository + "/" + name; }
  /// Rank 0: held while a directory of checkpoints is listed for the next number, or one in it is
  /// published, which has another name then: nobody sees neither or both.
  std::mutex checkpoints_mutex;

  /// Waits for what is under way in the background, and drops the errands that wait for calls. They
  /// hold the core, and the core its threads: none of those may be the last that lets go.
  void EndTransfers();

  std::mutex mutex;
  uint32_t last_database_number =
      0;  ///< the same on all ranks: databases are opened by all, in one order
  std::vector<DatabaseImpl*> open_databases;
  std::vector<std::shared_ptr<Job>> jobs;  ///< those under way, and some that have ended
};

}  // namespace quire::kv
