/// The simulated machine behind SimFileSystem: its tree, its steps, its crash. The public face and
/// the handles (sim_file_system.cpp) lock `mutex` and call in here.
///
/// Layer      io (internal, simulation)
/// Threads    every member is used under `mutex`
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "io/sim/sim_node.h"
#include "io/sim/sim_file_system.h"

namespace quire::io {

using SimNodePtr = std::shared_ptr<SimNode>;

/// A name in an existing directory; the node is null if the name is free.
struct SimPlace {
  SimNodePtr directory;
  std::string name;
  SimNodePtr node;
};

struct SimState {
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  std::mutex mutex;
  SimNodePtr root = std::make_shared<SimNode>(true);
  std::set<SimNode*> locked;
  std::multiset<SimNode*> locked_shared;
  uint64_t incarnation = 1;  ///< counts restarts: handles of earlier ones are dead
  uint64_t boot_id = 1;
  uint64_t steps = 0;
  uint64_t steps_left = kNever;
  uint64_t clock = 0;  ///< of changes to files
  bool crashed = false;
  bool persistent = false;  ///< mappings are persistent memory
  uint64_t capacity = kNever;
  uint64_t used = 0;

  /// The write that was in progress at the crash.
  struct {
    SimNodePtr node;
    uint64_t offset = 0;
    std::string bytes;
  } in_flight;

  /// Stored to persistent memory, and not fenced yet.
  struct StoredRange {
    SimNodePtr node;
    uint64_t offset;
    uint64_t size;
  };
  std::vector<StoredRange> unfenced;
  /// Makes all stores durable. After a crash: later stores were not in progress at the crash.
  void Fence();
  bool fenced_since_crash = false;
  std::set<std::thread::id> told;  ///< threads with a call that has failed since the crash

  /// Returns kIo after a crash; then later calls of this thread were not in progress at the crash.
  Status CheckAlive();
  /// Checks likewise for a handle that was opened in `handle_incarnation`.
  Status CheckHandle(uint64_t handle_incarnation);
  /// Counts a step; crashes if it was the last one allowed.
  void Step();
  /// Records that the contents of a file changed.
  void NoteModified(SimNode* node) { node->modified = ++clock; }
  /// Sets the number of steps left; 0 is a crash at once.
  void SetStepsLeft(uint64_t steps_allowed);
  /// Records a write that came after the crash, if it is the first of this incarnation, and no call
  /// of its thread has failed since the crash.
  void NoteInFlight(const SimNodePtr& node, uint64_t offset, Slice bytes,
                    uint64_t handle_incarnation);
  void Restart(CrashKind kind, uint64_t seed);

  /// kNotFound : a directory on the way is missing. kInvalidArgument: it is a file.
  Result<SimPlace> Find(const std::string& path) const;
  /// Finds likewise; the node must be a file (a directory) that exists.
  Result<SimNodePtr> FindFile(const std::string& path) const;
  Result<SimNodePtr> FindDirectory(const std::string& path) const;
  /// Changes a file's size. kNoSpace: there is not enough space. kUnsupported: it would move a
  /// mapping.
  Status Resize(SimNode* node, uint64_t size, const std::string& path);
  /// Removes one name of a file; removing the last one frees its space.
  void DropName(SimNode* node);
  uint64_t FreeBytes() const { return capacity == kNever ? uint64_t{1} << 62 : capacity - used; }

 private:
  void Crash();
  void ApplyInFlight(base::Random* random);
};

}  // namespace quire::io
