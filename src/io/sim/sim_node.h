/// The tree of the simulated file system: files, and directories whose changes are durable only
/// once the directory is synced.
///
/// Layer      io (internal, simulation)
/// Source     ALICE: directory operations of a crash survive as a prefix, files independently
/// Threads    serialized by SimFileSystem
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/sim/sim_content.h"

namespace quire::io {

struct SimNode;
using SimEntries = std::map<std::string, std::shared_ptr<SimNode>>;

/// One atomic change of a directory: a name is removed, added, or both (a rename).
struct SimChange {
  std::string removed;  ///< empty: none
  std::string added;    ///< empty: none
  std::shared_ptr<SimNode> node;

  void ApplyTo(SimEntries* entries) const;
};

struct SimNode {
  explicit SimNode(bool directory) : is_directory(directory) {}

  const bool is_directory;
  SimContent content;              ///< of a file
  uint64_t modified = 0;           ///< of a file: the time of its last change
  uint64_t names = 1;              ///< directory entries that lead here: hard links
  SimEntries entries;              ///< of a directory, as processes see it
  SimEntries durable_entries;      ///< of a directory, as on the device
  std::vector<SimChange> pending;  ///< the changes from durable_entries to entries

  /// Makes a change that is not durable yet.
  void Change(SimChange change);
  /// Makes all changes durable.
  void SyncEntries();
  /// Freezes this node and everything below it: the process that mapped it has died.
  void Freeze();
  /// Applies a power loss to this node and everything below it.
  void LosePower(PowerLoss loss, base::Random* random);
  /// Counts the names of all files below this node again, after some were lost; returns the files'
  /// bytes.
  uint64_t RecountBelow();

 private:
  void CountNames(std::map<SimNode*, uint64_t>* counts) const;
};

/// Returns the components of a path, without empty ones and ".".
std::vector<std::string> SplitPath(const std::string& path);

}  // namespace quire::io
