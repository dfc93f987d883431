/// A kind of storage engine: it opens parts, and works with the files of parts that are not open in
/// this process.
///
/// Layer      engine
/// Source     docs/decisions/0020-storage-engines.md
/// Threads    any, unless the comment of a class says otherwise
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/threads/executor.h"
#include "engine/backing_store.h"
#include "engine/iterator.h"
#include "engine/storage_engine.h"
#include "io/files/file_system.h"
#include "quire/options.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "table/block_cache.h"
#include "table/lookup_result.h"

namespace quire::engine {

/// The abilities of an engine beyond gets and puts.
struct Capabilities {
  bool ordered = false;             ///< iterators go by rising key; bounds and seeks hold
  bool snapshots = false;           ///< NewSnapshot, and iterators that see one moment
  bool atomic_batches = false;      ///< readers and recovery see a Write whole or not at all
  bool persistent = false;          ///< a later open finds the writes that the log's level promises
  bool neighbour_readable = false;  ///< implements NeighbourReadable, and StoredParts::OpenPeer
  bool capturable = false;          ///< implements Capturable: checkpoints
  bool backable = false;            ///< implements Backable: opens by other numbers of ranks
};

/// The services that an engine uses.
struct EngineEnvironment {
  io::FileSystem* fs = nullptr;
  base::Executor* executor = nullptr;
  std::shared_ptr<table::BlockCache> cache;  ///< null: its own, of StorageOptions::cache_bytes
  /// true: indexes are in /dev/shm, for the neighbours; false: in private memory
  bool share_memory = false;
  std::string holder;                        ///< for the lock file: host, pid, job
  std::shared_ptr<const BackingStore> base;  ///< null: none
  /// the longest time that a write waits for a MemTable to become free
  uint64_t pinned_wait_ms_max = 60'000;
};

struct ReaderOptions {
  StorageOptions storage;                    ///< options for searching tables; the rest is not used
  std::shared_ptr<table::BlockCache> cache;  ///< null: its own, of storage.cache_bytes
  /// No writer can change the directory: a missing file is damage, and no reader becomes stale.
  bool unchanging = false;
};

/// Reads a part without locking it or writing anything. A reader sees one state, which the owner
/// published; a newer reader never sees an older state.
class StoredPart {
 public:
  virtual ~StoredPart() = default;
  /// Copies the newest value in this reader's state once, into memory from `allocate`. `state` (may
  /// be null) becomes kValue, or one of the two kinds of kNotFound: kDeleted, or kAbsent if the
  /// part contains nothing about the key.
  /// Errors  kBusy: this reader is stale, because the writer has removed a file since: use a
  ///         Newer() reader. kCorruption, kIo.
  virtual Status Get(Slice key, const BufferAllocator& allocate, table::KeyState* state) const = 0;
  /// Returns an iterator over the live pairs of this reader's state. The iterator keeps the reader
  /// alive. Its status is kBusy if a value is stale, as for Get.
  virtual std::unique_ptr<Iterator> NewIterator(const IteratorOptions& options) const = 0;
  /// Returns a reader of the present state, which opens only the files that this one does not have.
  /// This reader's state does not change. Errors as of StoredParts::Open.
  virtual Result<std::shared_ptr<StoredPart>> Newer() const = 0;
  /// Returns the position without has_base: readers do not know the owner's base.
  virtual TablesPosition Position() const = 0;
  /// Returns the size of the entries in its files before compression: about what a walk reads.
  virtual uint64_t EntryBytes() const = 0;
};

/// Reads a neighbour's part through shared memory and its files: no message, no wake-up, nothing
/// written.
class PeerReader {
 public:
  virtual ~PeerReader() = default;
  /// Returns the newest value that the owner had applied at some instant during the call.
  /// kNotFound: absent or deleted. kBusy: no consistent view was possible (the owner keeps changing
  /// the part, closed it or died, or a file of the part cannot be opened): ask the owner by message
  /// instead. kCorruption, kIo: a file of the neighbour is damaged or unreadable. `allocate` may be
  /// called more than once; the last place counts.
  virtual Status Get(Slice key, const BufferAllocator& allocate) const = 0;
};

/// The place of a neighbour's part: region_name and region_bytes are of its NeighbourReadable.
struct PeerAddress {
  std::string directory;
  std::string region_name;
  uint64_t region_bytes = 0;
};

/// The removal of a part, piece by piece. Files that are not Quire's stay, in <directory>.left-*.
class PartRemoval {
 public:
  virtual ~PartRemoval() = default;
  /// Removes some files, for about 10 ms; true once the directory is gone. kBusy: the part is open.
  virtual Result<bool> Advance() = 0;
  /// Removes all that is left.
  Status Run();
};

/// A check whether the files of a copied part are as their writer wrote them. One thread.
class PartVerifier {
 public:
  virtual ~PartVerifier() = default;
  /// Checks the file `name` of the directory. `identity`: as in Capture::File.
  /// Errors  kCorruption (names the file): it is damaged, or another file than expected. kIo.
  /// Cost    Reads the file once. Memory for some blocks, or for the largest value.
  virtual Status Check(const std::string& name, uint64_t identity) = 0;
  /// Returns whether a checked file has places that are not records.
  virtual bool HasHoles(const std::string& name) const = 0;
  /// Checks the values in files with holes to which tables refer. Called once all files are there:
  /// `names`, the same in each call. Each call checks some, for about 10 ms; true once all are
  /// checked. Errors as of Check.
  virtual Result<bool> FinishSome(const std::vector<std::string>& names) = 0;
};

/// The files of parts of a persistent engine: operations for callers that do not have the part
/// open.
class StoredParts {
 public:
  virtual ~StoredParts() = default;
  /// Opens a reader of the part in `directory`.
  ///
  /// Errors  kNotFound: there is no part. kCorruption: a file is damaged or missing, though no
  ///         writer changed what was read. kUnsupported: a newer format. kBusy: writers changed the
  ///         part during each of many attempts. kIo, kOutOfMemory.
  virtual Result<std::shared_ptr<StoredPart>> Open(io::FileSystem& fs, const std::string& directory,
                                                   const ReaderOptions& options) const = 0;
  /// Opens a reader of a neighbour's part. kUnsupported without Capabilities::neighbour_readable.
  virtual Result<std::unique_ptr<PeerReader>> OpenPeer(io::FileSystem& fs,
                                                       const PeerAddress& address,
                                                       const ReaderOptions& options) const = 0;
  /// Prepares the removal of a part. `lock`: the part's lock, if the caller holds it; null: the
  /// removal takes it.
  virtual std::unique_ptr<PartRemoval> NewRemoval(io::FileSystem& fs, std::string directory,
                                                  std::unique_ptr<io::FileLock> lock) const = 0;
  virtual std::unique_ptr<PartVerifier> NewVerifier(io::FileSystem& fs,
                                                    std::string directory) const = 0;
  /// Writes a new store id into a copied part, so that nothing known of the original is taken to
  /// hold for the copy. The caller holds the part's lock.
  virtual Status GiveNewStoreId(io::FileSystem& fs, const std::string& directory) const = 0;
  /// Returns the name of the file without which a directory is no part.
  virtual std::string marker() const = 0;
  /// Returns the path of the file that the owner of a part locks.
  virtual std::string LockPath(const std::string& directory) const = 0;
};

class EngineKind {
 public:
  virtual ~EngineKind() = default;
  virtual const char* name() const = 0;
  virtual Capabilities capabilities() const = 0;
  /// Opens the part in `directory` (one rank's; created with mode 0700 if it does not exist) and
  /// recovers what the log promises.
  /// Errors  kBusy (open elsewhere; names the holder), kNotFound / kInvalidArgument (flags),
  ///         kCorruption, kUnsupported (newer format; a base for an engine that is not Backable),
  ///         kNoSpace, kIo. After an error nothing is changed but completed recovery steps.
  virtual Result<std::unique_ptr<StorageEngine>> Open(const EngineEnvironment& environment,
                                                      const std::string& directory,
                                                      const StorageOptions& options,
                                                      OpenFlags flags) const = 0;
  /// Returns null without Capabilities::persistent.
  virtual const StoredParts* stored_parts() const { return nullptr; }
};

}  // namespace quire::engine
