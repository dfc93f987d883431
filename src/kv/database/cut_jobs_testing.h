/// Jobs on disks that outlive them, of which one is cut off: machines go down between two steps on
/// files, or any subset of ranks dies between two calls on the network or on files. Machines that
/// went down come up again, with what was durable on their disks, or are replaced.
///
/// Layer      kv (tests only)
/// Threads    one; the programs run by turns, seeded
/// Invariants a rank that is dead changes no file any more, and holds no lock
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/core/random.h"
#include "io/sim/sim_file_system.h"
#include "kv/database/sim_cluster_testing.h"

namespace quire::kv {

class CutJobs {
 public:
  /// All ranks share everything below it.
  static constexpr char kShared[] = "/pfs";
  /// One disk that all ranks share, or `own_disks` of them, one for each rank, and beside them one
  /// that is shared, for kShared alone.
  CutJobs(uint64_t seed, int own_disks);

  bool own_disks() const { return own_disks_; }
  io::SimFileSystem& disk(int rank) { return *disks_[own_disks_ ? static_cast<size_t>(rank) : 0]; }
  /// The place of kShared.
  io::SimFileSystem& shared_disk() { return own_disks_ ? *shared_ : *disks_[0]; }

  /// A job to its end.
  void Run(int size, const std::string& repository, const SimCluster::Program& program);
  /// A job in which something dies, unless it ends before; `program` gets no Context that failed to
  /// open. The machines that went down are up again afterwards. May be repeated.
  void RunCut(int size, const std::string& repository, const SimCluster::Program& program);
  /// Some of the ranks below `size`, which have disks of their own, get new, empty ones: at least
  /// one.
  void ReplaceDisks(int size);
  /// True where something died in a RunCut.
  bool cut() const { return cut_; }
  /// The places at which it was to die.
  const std::string& description() const { return description_; }

 private:
  static constexpr int kSharedDisk = -1;
  enum class At { kNever, kTransportCall, kFileCall };
  struct Death {
    At at = At::kNever;
    uint64_t calls = 0;  // that it makes before
  };
  SimCluster::Options OptionsOf(int size, const std::string& repository);
  io::FileSystem& Files(int rank) {
    return own_disks_ ? *machines_[static_cast<size_t>(rank)] : *disks_[0];
  }
  void Arm(int size);
  void ArmMachine(int size);
  void OnKill(int rank);
  void Recover();
  void Recover(io::SimFileSystem& disk);
  void Describe(int size);

  const uint64_t seed_;
  base::Random random_;
  const bool own_disks_;
  std::vector<std::unique_ptr<io::SimFileSystem>> disks_;
  std::unique_ptr<io::SimFileSystem> shared_;                // beside disks of their own
  std::vector<std::unique_ptr<io::FileSystem>> machines_;    // own disks: what each rank sees
  std::vector<std::unique_ptr<io::FaultFileSystem>> files_;  // by rank, of the job that is cut off
  uint64_t jobs_ = 0;
  uint64_t steps_ = 0;  // of the machine that goes down; 0: ranks die
  int crashing_ = 0;    // a rank on it; kSharedDisk: that one, beside those of their own
  std::vector<Death> deaths_;
  bool with_machine_ = false;  // power goes when a rank has died
  bool cut_ = false;
  std::string description_;
};

}  // namespace quire::kv
