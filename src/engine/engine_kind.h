/// A kind of storage engine: it opens parts, and works with the files of parts that are not open in
/// this process.
///
/// Layer      engine
/// Source     docs/decisions/0020-storage-engines.md
/// Threads    any; readers and removals as they say
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/executor.h"
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
  bool atomic_batches = false;      ///< Write is seen, and recovered, whole or not at all
  bool persistent = false;          ///< a later open finds what the log promises
  bool neighbour_readable = false;  ///< the face of that name, and StoredParts::OpenPeer
  bool capturable = false;          ///< the face of that name: checkpoints
  bool backable = false;            ///< the face of that name: opens by other numbers of ranks
};

/// The services that an engine uses.
struct EngineEnvironment {
  io::FileSystem* fs = nullptr;
  base::Executor* executor = nullptr;
  std::shared_ptr<table::BlockCache> cache;  ///< null: one of its own, StorageOptions::cache_bytes
  /// indexes in /dev/shm for the neighbours; else private
  bool share_memory = false;
  std::string holder;                        ///< for the lock file: host, pid, job
  std::shared_ptr<const BackingStore> base;  ///< null: none
  /// a write waits so long for a MemTable to become free
  uint64_t pinned_wait_ms_max = 60'000;
};

struct ReaderOptions {
  StorageOptions storage;                    ///< how tables are searched; the rest is not used
  std::shared_ptr<table::BlockCache> cache;  ///< null: one of its own, storage.cache_bytes
  /// No writer can change the directory: a file that is gone is damage, and nothing is stale.
  bool unchanging = false;
};

/// Reads a part without its lock and without writing anything. As long as it lives it sees the one
/// state that its owner published; a newer reader never sees an older one.
class StoredPart {
 public:
  virtual ~StoredPart() = default;
  /// The newest value in what it sees, copied once into the memory that `allocate` gives. `state`
  /// (may be null): kValue, or which of the two kinds of kNotFound it is: kDeleted, or kAbsent if
  /// the part knows nothing of the key.
  /// Errors  kBusy: stale; the writer removed a file since: ask a Newer() reader. kCorruption, kIo.
  virtual Status Get(Slice key, const BufferAllocator& allocate, table::KeyState* state) const = 0;
  /// Live pairs of what it sees. The iterator keeps the reader. Its status is kBusy where a value
  /// is stale, as above.
  virtual std::unique_ptr<Iterator> NewIterator(const IteratorOptions& options) const = 0;
  /// Looks again. The new reader sees the present state, and opens only the files that this one
  /// does not have. This one sees what it saw before. Errors as of StoredParts::Open.
  virtual Result<std::shared_ptr<StoredPart>> Newer() const = 0;
  /// Without has_base: readers know nothing of the owner's base.
  virtual TablesPosition Position() const = 0;
  /// The size of the entries in its files before compression: about what a walk reads.
  virtual uint64_t EntryBytes() const = 0;
};

/// Reads a neighbour's part through shared memory and its files: no message, no wake-up, nothing
/// written.
class PeerReader {
 public:
  virtual ~PeerReader() = default;
  /// The newest value that the owner had applied at some instant during the call. kNotFound: absent
  /// or deleted. kBusy: no consistent view could be had (the owner keeps changing it, closed it, or
  /// died, or a file of it cannot be opened): ask it by message instead. kCorruption, kIo: what is
  /// in a file of the neighbour. `allocate` may be called more than once; the last place counts.
  virtual Status Get(Slice key, const BufferAllocator& allocate) const = 0;
};

/// The place of a neighbour's part: region_name and region_bytes are of its NeighbourReadable.
struct PeerAddress {
  std::string directory;
  std::string region_name;
  uint64_t region_bytes = 0;
};

/// The removal of a part, piece by piece. Files of others stay, in <directory>.left-*.
class PartRemoval {
 public:
  virtual ~PartRemoval() = default;
  /// Removes some files, for about 10 ms: true once the directory is gone. kBusy: it is open.
  virtual Result<bool> Advance() = 0;
  /// Removes all that is left.
  Status Run();
};

/// Whether the files of a part that was just copied are what their writer made. One thread.
class PartVerifier {
 public:
  virtual ~PartVerifier() = default;
  /// A file of the directory; `identity`: as in Capture::File.
  /// Errors  kCorruption: it is damaged, or another file (names it). kIo.
  /// Cost    One reading. Memory for some blocks, or for the largest value.
  virtual Status Check(const std::string& name, uint64_t identity) = 0;
  /// Returns whether a checked file has places that are no record.
  virtual bool HasHoles(const std::string& name) const = 0;
  /// Once all files are there, `names`, the same in each call: what files with holes have for
  /// others. Checks some, about 10 ms; true once all are checked. Errors as of Check.
  virtual Result<bool> FinishSome(const std::vector<std::string>& names) = 0;
};

/// The files of parts, of an engine that is persistent: what can be done with them by those who
/// have the part not open.
class StoredParts {
 public:
  virtual ~StoredParts() = default;
  /// Errors  kNotFound: there is no part. kCorruption: a file is damaged or gone, though no writer
  ///         changed what was read. kUnsupported: a newer format. kBusy: writers changed it at each
  ///         of many looks. kIo, kOutOfMemory.
  virtual Result<std::shared_ptr<StoredPart>> Open(io::FileSystem& fs, const std::string& directory,
                                                   const ReaderOptions& options) const = 0;
  /// kUnsupported: without Capabilities::neighbour_readable.
  virtual Result<std::unique_ptr<PeerReader>> OpenPeer(io::FileSystem& fs,
                                                       const PeerAddress& address,
                                                       const ReaderOptions& options) const = 0;
  /// `lock`: the part's, of the one who has it. Null: it is taken.
  virtual std::unique_ptr<PartRemoval> NewRemoval(io::FileSystem& fs, std::string directory,
                                                  std::unique_ptr<io::FileLock> lock) const = 0;
  virtual std::unique_ptr<PartVerifier> NewVerifier(io::FileSystem& fs,
                                                    std::string directory) const = 0;
  /// A part that was copied is another one from now on: what is known of the first goes for it no
  /// more. The caller has its lock.
  virtual Status GiveNewStoreId(io::FileSystem& fs, const std::string& directory) const = 0;
  /// The name of the file without which a directory is no part.
  virtual std::string marker() const = 0;
  /// The file that the owner of a part has locked.
  virtual std::string LockPath(const std::string& directory) const = 0;
};

class EngineKind {
 public:
  virtual ~EngineKind() = default;
  virtual const char* name() const = 0;
  virtual Capabilities capabilities() const = 0;
  /// Opens the part in `directory` (one rank's; created 0700 where absent), recovers what the log
  /// promises.
  /// Errors  kBusy (open elsewhere; names the holder), kNotFound / kInvalidArgument (flags),
  ///         kCorruption, kUnsupported (newer format; a base for an engine that is not Backable),
  ///         kNoSpace, kIo. Nothing is changed on error but completed recovery steps.
  virtual Result<std::unique_ptr<StorageEngine>> Open(const EngineEnvironment& environment,
                                                      const std::string& directory,
                                                      const StorageOptions& options,
                                                      OpenFlags flags) const = 0;
  /// Null: without Capabilities::persistent.
  virtual const StoredParts* stored_parts() const { return nullptr; }
};

}  // namespace quire::engine
