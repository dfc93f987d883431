/// Reads one rank's database on disk without its lock and without writing anything: on a read-only
/// file system, beside a running writer, after a crash, in an old generation or a checkpoint.
///
/// Layer      lsm
/// Source     docs/decisions/0009-persistence.md
/// Encoding   docs/format/manifest.md, segment.md, table.md
/// Threads    all functions from any thread. Released outside of every EpochGuard.
/// Invariants as long as it lives a reader sees one state, which a manifest published; if no
///            process held the directory's lock, also everything that the log promises. A table,
///            once opened, stays readable whatever the writer removes. A newer reader never sees an
///            older state.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/engine_kind.h"
#include "io/files/file_system.h"
#include "lsm/version/manifest.h"
#include "quire/status.h"

namespace quire::lsm {

/// The state that a reader sees.
struct ReaderState {
  std::shared_ptr<const Manifest> manifest;
  std::string writer;        ///< the holder of the lock at that time; empty: none
  uint64_t log_records = 0;  ///< records from the log, which are in no table
  uint64_t log_holes = 0;    ///< torn places in the log, as recovery counts them
};

class Reader : public engine::StoredPart {
 public:
  /// Opens a reader, as StoredParts::Open does.
  /// Cost    the manifest, and two reads for each table; after a crash the log is read.
  static Result<std::shared_ptr<Reader>> Open(io::FileSystem& fs, const std::string& directory,
                                              const engine::ReaderOptions& options);

  virtual ReaderState State() const = 0;
  /// Reads everything that this reader sees and verifies every checksum: tables, the values to
  /// which they and the log refer, and the headers of those values' segments. `progress` (may be
  /// empty) is called with the bytes done, and in all.
  /// Errors  as of Get.
  using VerifyProgress = std::function<void(uint64_t done, uint64_t total)>;
  virtual Status Verify(const VerifyProgress& progress) const = 0;
};

}  // namespace quire::lsm
