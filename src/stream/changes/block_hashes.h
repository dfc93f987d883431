/// The hashes of an object's blocks at the last look; they show which blocks changed since.
///
/// Layer      stream
/// Source     docs/decisions/0013-streams.md
/// Threads    an object belongs to one thread
#pragma once

#include <cstdint>
#include <memory>

#include "base/hash.h"
#include "stream/changes/block_set.h"

namespace quire::stream {

/// [bytes] What a delta is made of. The last block of an object may be shorter.
constexpr uint64_t kBlockBytes = base::kHashedBlockBytes;

class BlockHashes {
 public:
  /// `memory` lives longer. Nothing is kept yet, and no memory taken.
  BlockHashes(const char* memory, uint64_t bytes);

  uint64_t blocks() const { return kept_.blocks(); }
  /// Blocks of `run` of which a hash is kept.
  uint64_t KeptIn(BlockRun run) const { return kept_.CountIn(run); }

  /// Hashes the blocks of `run`, keeps their hashes, and adds to `changed` those whose hash was
  /// another, or was not kept. Returns how many had another.
  ///
  /// Cost     0.1 ns per byte, and what it takes to load it.
  uint64_t Update(BlockRun run, BlockSet* changed);
  /// Keeps hashes for blocks that have none.
  void KeepMissing(BlockRun run);
  /// The first block whose hash is kept and has changed; blocks(): none has.
  uint64_t FirstDifference() const;
  /// Keeps none of `run`.
  void Forget(BlockRun run) { kept_.Remove(run); }
  /// Keeps none, and gives memory back.
  void Clear();

 private:
  void HashRun(BlockRun run, uint64_t* hashes) const;

  const char* const memory_;
  const uint64_t bytes_;
  BlockSet kept_;
  std::unique_ptr<uint64_t[]> hashes_;
};

}  // namespace quire::stream
