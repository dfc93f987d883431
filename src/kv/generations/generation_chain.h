/// The older generations of a database, newest first. Consulted for keys that the current
/// generation does not contain.
///
/// Layer      kv
/// Source     docs/decisions/0009-persistence.md
/// Threads    any; parts are opened when they are first needed
/// Invariants parts never change: while a chain that locks them lives, no program can write to
///            them, or remove them; of one that others write to, a chain sees what there was when
///            it opened it. A key is in the part of its owner of that generation, and in
///            none if the partitioner answers no rank of it: then it was never put there. If the
///            partitioner throws, the question fails. The newest generation that knows a key, as a
///            value or as deleted, says what it is.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/backing_store.h"
#include "engine/engine_kind.h"
#include "kv/protocol/descriptor.h"
#include "runtime/partitioning.h"

namespace quire::kv {

class GenerationChain {
 public:
  struct Options {
    io::FileSystem* fs = nullptr;
    std::string directory;                ///< the database's
    std::vector<Generation> generations;  ///< newest first
    runtime::Partitioning partitioning;
    engine::ReaderOptions reader;
    bool locks = false;  ///< keep writers away from the parts; those of checkpoints have none
    /// If nothing keeps them away: asked whenever a part was opened. Empty: not asked.
    std::function<Status()> still_present;
  };
  explicit GenerationChain(Options options);

  /// Whether their owners alone may change the directories of all generations: else
  /// kInvalidArgument. Looked at again where a part is opened.
  Status CheckWriters() const;
  /// Opens the parts that `former` has open, as they are now, with what `former` has of them;
  /// before other threads use this one. `former`, and whoever reads with it, sees what it saw.
  Status TakeOver(const GenerationChain& former);

  /// The value that the older generations have. kNotFound: none. What a partitioner throws fails
  /// it, here and below, with kInvalidArgument, or kOutOfMemory of std::bad_alloc.
  Status Get(Slice key, const BufferAllocator& allocate) const;
  /// Whether generation `at` or a newer one of the chain knows the key, before generation `end`.
  Result<bool> KnownBefore(Slice key, size_t end) const;
  /// The part of `rank` in generation `at`, opened, and kept open.
  Result<std::shared_ptr<engine::StoredPart>> Part(size_t at, int rank) const;
  /// The same for a caller that reads it through once: kept open only if it is open already.
  Result<std::shared_ptr<engine::StoredPart>> PartOnce(size_t at, int rank) const;
  /// Locks it without opening it. kBusy: a program still writes to it; the text names it.
  /// kCorruption: it lay in a checkpoint that is gone, or another one by now.
  Status Hold(size_t at, int rank) const;

  const std::vector<Generation>& generations() const { return options_.generations; }
  const Options& options() const { return options_; }
  /// The owner of `key` among `rank_count` ranks. kInvalidArgument: the partitioner answers none,
  /// or throws; kOutOfMemory: it throws std::bad_alloc.
  Result<int> OwnerAmong(Slice key, int rank_count) const;

 private:
  struct Slot {
    std::mutex mutex;
    std::unique_ptr<io::FileLock> lock;  // outlives the reader
    std::shared_ptr<engine::StoredPart> reader;
  };
  static Status TakePart(Slot& from, Slot* to);
  Slot& SlotOf(size_t at, int rank) const { return slots_[at][static_cast<size_t>(rank)]; }
  Status CheckWriter(size_t at) const;
  Status HoldLocked(size_t at, int rank, Slot& slot) const;
  Result<std::shared_ptr<engine::StoredPart>> OpenLocked(size_t at, int rank, Slot& slot) const;
  Status Look(size_t at, Slice key, const BufferAllocator& allocate, table::KeyState* state) const;

  const Options options_;
  std::vector<std::unique_ptr<Slot[]>> slots_;  // by generation, by rank
};

constexpr int kAllRanks = 0;
/// The pairs of `chain` that `rank` of `rank_count` owns, or kAllRanks do, as base of its storage.
std::shared_ptr<const engine::BackingStore> NewChainBackingStore(
    std::shared_ptr<const GenerationChain> chain, int rank, int rank_count);
/// A base without a pair: with it a storage drops no tombstone, as long as pairs of older parts are
/// moved to it that nobody reads where they lie.
std::shared_ptr<const engine::BackingStore> NewEmptyBackingStore();

}  // namespace quire::kv
