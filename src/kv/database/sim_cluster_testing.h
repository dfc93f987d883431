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

#include "base/core/sanitizer.h"
#include "comm/sim/sim_transport.h"
#include "io/sim/sim_file_system.h"
#include "kv/database/context.h"
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
    bool own_machines = false;  ///< and is on a machine of its own: numbers are drawn, not from 1
    bool share_memory = true;  ///< ranks on one disk map each other's memory
    io::CrashKind crash =
        io::CrashKind::kProcess;  ///< what becomes of the disk of a rank that is killed
    std::string repository = "/repository";
    /// The file system of a rank in place of its disk. Empty: its disk.
    std::function<io::FileSystem*(int rank)> file_system;
    /// Runs when a rank is killed, before any rank can notice.
    std::function<void(int rank)> on_kill;
    ContextOptions context;
  };
  using Program = std::function<void(int rank, Context& context)>;
  using DatabaseProgram = std::function<void(int rank, Context& context, Database& db)>;

  explicit SimCluster(const Options& options);

  /// One job: opens a Context on every rank, runs `program`, ends it. May be repeated: files stay.
  void Run(const Program& program);
  /// The same where a Context may fail to open (killed ranks): `program` gets what came of it.
  void RunRaw(
      const std::function<void(int rank, Result<std::unique_ptr<Context>> context)>& program);

  /// One job that opens "db" on every rank and runs `program`, which closes it, or leaves that to
  /// the end of the handle.
  void RunDatabase(const DatabaseOptions& options, const DatabaseProgram& program);

  /// For the next Run: `rank` is killed after so many transport calls.
  void KillAfter(int rank, uint64_t calls) { kills_.push_back({rank, calls}); }
  /// During a Run.
  comm::SimNetwork& network() { return *network_; }
  bool Killed(int rank) const { return killed_[static_cast<size_t>(rank)]; }

  io::SimFileSystem& disk(int rank) { return *disks_[own_disks_ ? static_cast<size_t>(rank) : 0]; }

  /// True where ranks read each other's memory and tables directly: they share a disk. Not under
  /// ThreadSanitizer, which does not know that two mappings of the same memory are the same memory.
  bool direct_reads() const {
    return !own_disks_ && options_.share_memory && !QUIRE_THREAD_SANITIZER;
  }

  /// Small MemTables and segments, so that a test flushes, compacts and does not take memory.
  static DatabaseOptions SmallDatabase();
  /// A key of that owner: `prefix`, made longer.
  static std::string KeyOwnedBy(const Database& db, int owner, const std::string& prefix = "k");
  /// The value of `key`, or its status between angle brackets: never empty by mistake.
  static std::string ValueOf(Database& db, Slice key);

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
