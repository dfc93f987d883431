/// Manifest: what one rank's database consists of. One small file, rewritten as a whole and
/// replaced atomically at every change of the set of tables; what it does not name does not exist.
///
/// Layer      lsm
/// Source     LevelDB's and RocksDB's MANIFEST for the failure cases; docs/durability.md
/// Encoding   docs/format/manifest.md
/// Threads    pure functions; the publisher holds the directory's lock and serializes its own calls
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "quire/options.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "table/table.h"

namespace quire::lsm {

/// A value segment that tables or log records may refer to.
struct StoredSegment {
  uint64_t id = 0;
  uint64_t file_bytes = 0;   ///< 0: it was still written to when the manifest was
};

/// A log segment that was live, its header durable, when the manifest was written: it must be
/// there.
struct StoredLog {
  uint64_t pool_slot = 0;
  uint64_t generation = 0;
};

/// Everything a manifest says.
struct Manifest {
  /// random, given at creation and to each copy that a restart makes: what was read of another
  /// store by the same name is not read of this one
  uint64_t store_id = 0;
  uint64_t epoch = 0;      ///< raised by every open for writing; the highest one may write
  uint64_t edition = 0;    ///< raised by every write of the manifest
  uint64_t flushed_lsn = 0;              ///< log segments with a lower base_lsn are in tables
  /// tables with this SSID or a higher one, found in the directory, are orphans
  uint64_t next_ssid = 1;
  /// the next value segment gets this number or a higher one
  uint64_t next_value_segment_id = 1;
  /// those from here on count whether listed or not; below, only those listed
  uint64_t value_segment_floor = 1;
  uint64_t boot_id = 0;                  ///< boot of the machine in which the last opener ran
  /// of the last opener, for tools; tables and segments describe themselves
  StorageOptions options;
  /// newest first; within a run by key, not overlapping
  std::vector<std::vector<table::TableInfo>> runs;
  std::vector<StoredSegment> value_segments;         ///< by rising id
  std::vector<StoredLog> log_segments;               ///< oldest first; empty with the log off
};

/// The bytes of the file.
std::string EncodeManifest(const Manifest& manifest);
/// Errors  kCorruption (names `path`): damaged, cut off, or counts that cannot be. kUnsupported: a
///         newer format.
Result<Manifest> DecodeManifest(Slice bytes, const std::string& path);

/// The manifest of the database in `directory`. kNotFound: there is none.
Result<Manifest> ReadManifest(io::FileSystem& fs, const std::string& directory);
/// Makes `manifest` the current one (P2 at return), unless another program took the database over
/// since, or made another one in its place: on disk there must be the edition before it, of the
/// same store, of its own epoch or of `previous_epoch` (for the first write after open).
/// Errors  kBusy: taken over, nothing was written; kNoSpace, kIo: the old one stands, or (directory
///         sync) either.
Status PublishManifest(io::FileSystem& fs, const std::string& directory, const Manifest& manifest,
                       uint64_t previous_epoch);
/// A writer's lock and what it has open follow its directory if that is moved; what it makes and
/// removes goes by path. So it asks this first: whether `directory` still is that of the database
/// `store_id`, and its last opener that of `epoch`. The manifest's header alone is read.
/// Errors  kBusy: it is another's. kNotFound: there is none any more.
Status CheckHeld(io::FileSystem& fs, const std::string& directory, uint64_t store_id,
                 uint64_t epoch);
/// The edition of the manifest on disk, whose header alone is read.
Result<uint64_t> StoredEdition(io::FileSystem& fs, const std::string& directory);
/// Whether the manifest on disk still is `manifest`; its header alone is read. None is none.
Result<bool> StillStored(io::FileSystem& fs, const std::string& directory,
                         const Manifest& manifest);
/// Writes the first manifest of a new database.
Status CreateManifest(io::FileSystem& fs, const std::string& directory, const Manifest& manifest);
/// Makes the copy of a database in `directory` another store: both will give the same names to
/// different files. Before anyone opens it. Errors as of ReadManifest and PublishManifest.
Status GiveNewStoreId(io::FileSystem& fs, const std::string& directory);

/// "MANIFEST".
std::string ManifestName();
/// <directory>/LOCK: locked by the program that has the database open for writing.
std::string LockPath(const std::string& directory);
/// "t-<ssid>.sst".
std::string TableName(uint64_t ssid);
/// The number in a name made of `prefix`, decimal digits without leading zeros, `suffix`; false for
/// any other name.
bool ParseNumberedName(Slice name, Slice prefix, Slice suffix, uint64_t* number);

}  // namespace quire::lsm
