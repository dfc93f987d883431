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
  uint64_t file_bytes = 0;   ///< 0: it was still being written
};

/// A log segment that was live, its header durable, when the manifest was written: it must be
/// there.
struct StoredLog {
  uint64_t pool_slot = 0;
  uint64_t generation = 0;
};

/// The contents of a manifest.
struct Manifest {
  /// random, chosen at creation, and for each copy that a restart makes: data read of another store
  /// by the same name is not used for this one
  uint64_t store_id = 0;
  uint64_t epoch = 0;      ///< raised by every open for writing; the highest one may write
  uint64_t edition = 0;    ///< raised by every write of the manifest
  uint64_t flushed_lsn = 0;              ///< log segments with a lower base_lsn are in tables
  /// tables with this SSID or a higher one, found in the directory, are orphans
  uint64_t next_ssid = 1;
  /// the next value segment gets this number or a higher one
  uint64_t next_value_segment_id = 1;
  /// segments from this id on count whether listed or not; below, only those listed
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
/// Errors  kCorruption (names `path`): damaged, cut off, or impossible counts. kUnsupported: a
///         newer format.
Result<Manifest> DecodeManifest(Slice bytes, const std::string& path);

/// Reads the manifest of the database in `directory`. kNotFound: there is none.
Result<Manifest> ReadManifest(io::FileSystem& fs, const std::string& directory);
/// Makes `manifest` the current one (P2 at return), unless another program took over the database
/// since, or made another one in its place. The manifest on disk must have the edition before it,
/// the same store, and its own epoch or `previous_epoch` (for the first write after open).
/// Errors  kBusy: taken over, nothing was written; kNoSpace, kIo: the old manifest is in force, or
///         (directory sync) either.
Status PublishManifest(io::FileSystem& fs, const std::string& directory, const Manifest& manifest,
                       uint64_t previous_epoch);
/// Checks whether `directory` still is that of the database `store_id`, and its last opener that of
/// `epoch`. If a directory is moved, a writer's lock and open files move with it, but the writer
/// creates and removes files by path: so it calls this first. Reads only the manifest's header.
/// Errors  kBusy: the directory belongs to another opener. kNotFound: there is no manifest any
///         more.
Status CheckHeld(io::FileSystem& fs, const std::string& directory, uint64_t store_id,
                 uint64_t epoch);
/// Returns the edition of the manifest on disk; reads only its header.
Result<uint64_t> StoredEdition(io::FileSystem& fs, const std::string& directory);
/// Returns whether the manifest on disk is still `manifest`; reads only its header.
Result<bool> StillStored(io::FileSystem& fs, const std::string& directory,
                         const Manifest& manifest);
/// Writes the first manifest of a new database.
Status CreateManifest(io::FileSystem& fs, const std::string& directory, const Manifest& manifest);
/// Makes the copy of a database in `directory` another store, because original and copy will give
/// the same names to different files. Called before the copy is opened. Errors as of ReadManifest
/// and PublishManifest.
Status GiveNewStoreId(io::FileSystem& fs, const std::string& directory);

/// "MANIFEST".
std::string ManifestName();
/// <directory>/LOCK: locked by the program that has the database open for writing.
std::string LockPath(const std::string& directory);
/// "t-<ssid>.sst".
std::string TableName(uint64_t ssid);
/// Reads the number in a name made of `prefix`, decimal digits without leading zeros, `suffix`;
/// false for any other name.
bool ParseNumberedName(Slice name, Slice prefix, Slice suffix, uint64_t* number);

}  // namespace quire::lsm
