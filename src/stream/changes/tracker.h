/// Finds which blocks of an object's memory changed since the version before.
///
/// Layer      stream
/// Source     NVStream, HPDC18, section 5.2 (delta-compression); docs/decisions/0013-streams.md
/// Threads    one at a time; the program writes to the memory between the calls, not during them
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "quire/stream.h"
#include "stream/changes/block_hashes.h"
#include "stream/changes/block_set.h"

namespace quire::stream {

/// The blocks that may have changed; rising runs that do not touch. `all`: the whole object, runs
/// are empty.
struct Changes {
  bool all = true;
  std::vector<BlockRun> runs;
  uint64_t blocks = 0;  ///< in runs
};

class Tracker {
 public:
  /// Returns a tracker of `memory`, which must outlive it. `deltas` is not kOff. If a mechanism
  /// does not work here, or not for this memory (kProtect and kWatch need it to begin at a page),
  /// kHash is used instead, and a line is logged; for memory smaller than a page nothing is logged.
  /// kAuto uses at every step the way that has been cheapest: no tracking, hashes, or kWatch; never
  /// kProtect, with which system calls fail. `audited`: there will be audits; then the first
  /// DetectChanges reports all blocks.
  static Result<std::unique_ptr<Tracker>> New(char* memory, uint64_t bytes, StreamDeltas deltas,
                                              bool audited = false);
  virtual ~Tracker() = default;

  /// Returns the changes since the last CommitChanges; all blocks if there was none. Until
  /// CommitChanges nothing is forgotten: a second call returns the same changes and those made
  /// since. After an error, returns all blocks.
  virtual Result<Changes> DetectChanges() = 0;
  /// Records that the last result of DetectChanges was stored: later changes belong to the next
  /// version. `delta`: whether it was stored as a delta. `store_ns`: how long storing took [ns],
  /// for choosing the next mechanism.
  virtual void CommitChanges(bool delta, uint64_t store_ns) = 0;
  /// Records that bytes changed that no store or system call of this process wrote. Ignores bytes
  /// behind the end.
  virtual void MarkDirty(uint64_t offset, uint64_t bytes) = 0;
  /// Compares all blocks with the last result of DetectChanges: kCorruption, with the offset, if a
  /// change was not reported. Call it between DetectChanges and CommitChanges. Returns OK if there
  /// is nothing to compare with (all blocks were reported).
  virtual Status Audit() = 0;
  /// Returns the mechanism that the next DetectChanges will use: "whole", "hash", "protect" or
  /// "watch".
  virtual const char* mechanism() const = 0;
};

}  // namespace quire::stream
