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
  /// Tracks `memory`, which must outlive it. `deltas` is not kOff. A mechanism that does not work
  /// here, or for this memory (kProtect and kWatch need it to begin at a page), gives way to kHash,
  /// with a line to the log callback; what is less than a page, without. kAuto takes at every step
  /// what has been cheapest: no tracking, hashes, or kWatch; never kProtect, with which system
  /// calls fail. `audited`: there will be audits; then the first DetectChanges reports all.
  static Result<std::unique_ptr<Tracker>> New(char* memory, uint64_t bytes, StreamDeltas deltas,
                                              bool audited = false);
  virtual ~Tracker() = default;

  /// Returns the changes since the last CommitChanges; all blocks before the first. Until
  /// CommitChanges nothing is forgotten: asked again, the answer has what it had and what came
  /// since. After an error, all.
  virtual Result<Changes> DetectChanges() = 0;
  /// The last result of DetectChanges is stored: later changes belong to the next version. `delta`:
  /// it was stored as a delta; and how long storing took [ns], for choosing.
  virtual void CommitChanges(bool delta, uint64_t store_ns) = 0;
  /// Bytes changed that no store or system call of this process wrote. Bytes behind the end are
  /// left out.
  virtual void MarkDirty(uint64_t offset, uint64_t bytes) = 0;
  /// Compares all blocks with the last result of DetectChanges: kCorruption, with the offset, if a
  /// change was not reported. Between DetectChanges and CommitChanges. Nothing to compare with (all
  /// blocks were reported): OK.
  virtual Status Audit() = 0;
  /// "whole", "hash", "protect", "watch": what the next DetectChanges will use.
  virtual const char* mechanism() const = 0;
};

}  // namespace quire::stream
