/// N ranks in this process, each with a Context over the simulated network and file system: for
/// tests.
///
/// Layer      kv (tests only)
/// Threads    Run: one thread; the program runs on one thread per rank
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/sanitizer.h"
#include "comm/sim_transport.h"
#include "io/sim_file_system.h"
#include "kv/context.h"
#include "quire/database.h"

namespace quire::kv {

class SimCluster {
 public:
  struct Options {
    int rank_count = 2;
    uint64_t seed = 1;
    bool deterministic =
        true;  ///< seeded turns and no background threads; false: free-running threads
    bool own_disks =
        false;  ///< every rank has a file system of its own, which crashes when it is killed
    ContextOptions context;
  };
  using Program = std::function<void(int rank, Context& context)>;

  explicit SimCluster(const Options& options);

  /// One job: opens a Context on every rank, runs `program`, ends it. May be repeated: files stay.
  void Run(const Program& program);
  /// The same where a Context may fail to open (killed ranks): `program` gets what came of it.
  void RunRaw(
      const std::function<void(int rank, Result<std::unique_ptr<Context>> context)>& program);

  /// For the next Run: `rank` is killed after so many transport calls.
  void KillAfter(int rank, uint64_t calls) { kills_.push_back({rank, calls}); }
  /// During a Run.
  comm::SimNetwork& network() { return *network_; }
  bool Killed(int rank) const { return killed_[static_cast<size_t>(rank)]; }

  io::SimFileSystem& disk(int rank) { return *disks_[own_disks_ ? static_cast<size_t>(rank) : 0]; }

  /// True where ranks read each other's memory and tables directly: they share a disk. Not under
  /// ThreadSanitizer, which does not know that two mappings of the same memory are the same memory.
  bool direct_reads() const { return !own_disks_ && !QUIRE_THREAD_SANITIZER; }

  /// Small MemTables and segments, so that a test flushes, compacts and does not take memory.
  static DatabaseOptions SmallDatabase();

 private:
  struct Kill {
    int rank;
    uint64_t calls;
  };
  Options options_;
  bool own_disks_;
  uint64_t run_count_ = 0;
  std::vector<std::unique_ptr<io::SimFileSystem>> disks_;
  std::vector<Kill> kills_;
  std::vector<char> killed_;
  std::unique_ptr<comm::SimNetwork> network_;
};

}  // namespace quire::kv
