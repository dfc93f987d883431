/// The older generations of a database, newest first. Consulted for keys that the current
/// generation does not contain.
///
/// Layer      kv
/// Source     docs/decisions/0009-persistence.md
/// Threads    any; parts are opened when they are first needed
/// Invariants parts never change: while a chain that locks them lives, no program can write to
///            them, or remove them; if other programs write to a part, a chain sees the state of
///            when it opened the part. A key is in the part of its owner of that generation, and in
///            none if the partitioner returns no rank for it: then it was never put there. If the
///            partitioner throws, the lookup fails. The newest generation that contains a key, as a
///            value or as deleted, decides.
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
    bool locks = false;  ///< keep writers away from the parts; checkpoints' parts have none
    /// Called whenever a part was opened, if nothing keeps writers away. Empty: not called.
    std::function<Status()> still_present;
  };
  explicit GenerationChain(Options options);

  /// Returns kInvalidArgument unless the directories of all generations can be changed by their
  /// owners only. Checked again when a part is opened.
  Status CheckWriters() const;
  /// Opens the parts that `former` has open, in their present state, and reuses what `former` has
  /// of them; called before other threads use this chain. `former`, and its readers, see what they
  /// saw.
  Status TakeOver(const GenerationChain& former);

  /// Returns the value in the older generations. kNotFound: none. If a partitioner throws, this
  /// call and those below fail with kInvalidArgument, or kOutOfMemory for std::bad_alloc.
  Status Get(Slice key, const BufferAllocator& allocate) const;
  /// Returns whether a generation newer than generation `end` contains the key, also as deleted.
  Result<bool> KnownBefore(Slice key, size_t end) const;
  /// Returns the part of `rank` in generation `at`, opened, and keeps it open.
  Result<std::shared_ptr<engine::StoredPart>> Part(size_t at, int rank) const;
  /// Does the same for a caller that reads the part once: keeps it open only if it is open already.
  Result<std::shared_ptr<engine::StoredPart>> PartOnce(size_t at, int rank) const;
  /// Locks the part without opening it. kBusy: a program still writes to it; the text names it.
  /// kCorruption: it was in a checkpoint that is gone, or that another one has replaced.
  Status Hold(size_t at, int rank) const;

  const std::vector<Generation>& generations() const { return options_.generations; }
  const Options& options() const { return options_; }
  /// Returns the owner of `key` among `rank_count` ranks. kInvalidArgument: the partitioner returns
  /// no rank, or throws; kOutOfMemory: it throws std::bad_alloc.
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
/// Returns the base of a storage: the pairs of `chain` that `rank` of `rank_count` owns, or all.
std::shared_ptr<const engine::BackingStore> NewChainBackingStore(
    std::shared_ptr<const GenerationChain> chain, int rank, int rank_count);
/// Returns a base without pairs. With it a storage drops no tombstone, while pairs are moved to it
/// from older parts that no reader reads in place.
std::shared_ptr<const engine::BackingStore> NewEmptyBackingStore();

}  // namespace quire::kv
