/// The hashes of an object's blocks when they were last read; they show which blocks changed since.
///
/// Layer      stream
/// Source     docs/decisions/0013-streams.md
/// Threads    an object belongs to one thread
#pragma once

#include <cstdint>
#include <memory>

#include "base/hash/hash.h"
#include "stream/changes/block_set.h"

namespace quire::stream {

/// [bytes] The size of a block, the unit of a delta. The last block of an object may be shorter.
constexpr uint64_t kBlockBytes = base::kHashedBlockBytes;

class BlockHashes {
 public:
  /// `memory` must outlive this object. Stores no hashes yet and allocates no memory.
  BlockHashes(const char* memory, uint64_t bytes);

  uint64_t blocks() const { return kept_.blocks(); }
  /// Returns the number of blocks of `run` whose hash is stored.
  uint64_t KeptIn(BlockRun run) const { return kept_.CountIn(run); }

  /// Hashes the blocks of `run`, stores their hashes, and adds to `changed` the blocks whose stored
  /// hash was different or missing. Returns how many had a different hash.
  ///
  /// Cost     0.1 ns per byte, plus the time to load it from memory.
  uint64_t Update(BlockRun run, BlockSet* changed);
  /// Stores the hashes of those blocks of `run` that have none.
  void KeepMissing(BlockRun run);
  /// Returns the first block whose hash is stored and no longer matches; blocks() if there is none.
  uint64_t FirstDifference() const;
  /// Removes the hashes of `run`.
  void Forget(BlockRun run) { kept_.Remove(run); }
  /// Removes all hashes and releases their memory.
  void Clear();

 private:
  void HashRun(BlockRun run, uint64_t* hashes) const;

  const char* const memory_;
  const uint64_t bytes_;
  BlockSet kept_;
  std::unique_ptr<uint64_t[]> hashes_;
};

}  // namespace quire::stream
