/// Reads one rank's database on disk without its lock and without writing anything: on a read-only
/// file system, beside a running writer, after a crash, in an old generation or a checkpoint.
///
/// Layer      lsm
/// Source     docs/decisions/0009-persistence.md
/// Encoding   docs/format/manifest.md, segment.md, table.md
/// Threads    all functions from any thread. Released outside of every EpochGuard.
/// Invariants as long as it lives a reader sees the one state that a manifest published; if no
///            process held the directory's lock, also everything that the log promises. A table,
///            once opened, stays readable whatever the writer removes. A newer reader never sees an
///            older state.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "io/files/file_system.h"
#include "lsm/db/db.h"
#include "lsm/version/manifest.h"
#include "lsm/vlog/value_log.h"
#include "quire/options.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "table/table.h"

namespace quire::lsm {

struct ReaderOptions {
  StorageOptions storage;                    ///< how tables are searched; the rest is not used
  std::shared_ptr<table::BlockCache> cache;  ///< null: one of its own, storage.cache_bytes
  /// No writer can change the directory: a file that is gone is damage, and nothing is stale.
  bool unchanging = false;
};

/// The state that a reader sees.
struct ReaderState {
  std::shared_ptr<const Manifest> manifest;
  std::string writer;        ///< the holder of the lock at that time; empty: none
  uint64_t log_records = 0;  ///< seen that are in no table: from the log
  uint64_t log_holes = 0;    ///< torn places in the log, as recovery counts them
};

class Reader {
 public:
  /// The state of a key in a database.
  enum class Presence { kNowhere, kDeleted, kPresent };

  /// Errors  kNotFound: there is no database. kCorruption: a file is damaged or gone, though no
  ///         writer changed what was read. kUnsupported: a newer format. kBusy: writers changed it
  ///         at each of many looks. kIo, kOutOfMemory.
  /// Cost    the manifest, and two reads for each table; after a crash the log is read.
  static Result<std::shared_ptr<Reader>> Open(io::FileSystem& fs, const std::string& directory,
                                              const ReaderOptions& options);
  virtual ~Reader() = default;

  /// The newest value in what it sees, copied once into the memory that `allocate` gives.
  /// `presence` (may be null) distinguishes the two kinds of kNotFound: deleted here, or unknown.
  /// Errors  kBusy: stale; the writer removed a value segment since: ask a Newer() reader.
  ///         kCorruption, kIo.
  virtual Status Get(Slice key, const BufferAllocator& allocate, Presence* presence) const = 0;
  /// Live pairs of what it sees. The iterator keeps the reader. Its status is kBusy where a value
  /// is stale, as above.
  virtual std::unique_ptr<Iterator> NewIterator(const IteratorOptions& options) const = 0;
  /// Looks again: a reader of what is there now, which opens only what this one does not have. This
  /// one, and whoever reads with it, sees what it saw before. Errors as of Open.
  virtual Result<std::shared_ptr<Reader>> Newer() const = 0;
  virtual ReaderState State() const = 0;
  /// Reads everything that it sees and verifies every checksum: tables, the values that they and
  /// the log refer to, and the headers of those values' segments. `progress` (may be empty) is
  /// called with bytes done, and in all.
  /// Errors  as of Get.
  using VerifyProgress = std::function<void(uint64_t done, uint64_t total)>;
  virtual Status Verify(const VerifyProgress& progress) const = 0;
};

}  // namespace quire::lsm
