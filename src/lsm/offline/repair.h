/// Repairs a rank's database that does not open: keeps everything that is sound, sets aside the
/// rest, and reports what was lost.
///
/// Layer      lsm (tools)
/// Source     LevelDB's RepairDB
/// Encoding   docs/format/manifest.md
/// Threads    one thread; the directory's lock is held while something is changed
/// Invariants nothing is destroyed: files that cannot be used are in the lost directory before a
///            manifest that does not name them is in force. An interrupted repair can be repeated.
#pragma once

#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "quire/options.h"
#include "quire/status.h"

namespace quire::lsm {

/// Returns `path`, or the first of "<path>.2", "<path>.3" ... that does not exist: files that an
/// earlier repair set aside stay.
Result<std::string> FreePath(io::FileSystem& fs, const std::string& path);

struct RepairOptions {
  StorageOptions storage;
  bool dry_run = true;
  std::string lost_directory;  ///< made when needed; on the file system of the database
  std::string lost_prefix;     ///< before the names of files there
  std::string holder;          ///< for the lock file
};

struct RepairReport {
  bool needed = false;              ///< false: the database opens as it is
  std::vector<std::string> steps;   ///< what was done, or with dry_run would be
  std::vector<std::string> losses;  ///< what these steps lose
};

/// Repairs the database in `directory`.
/// Errors  kNotFound: no database. kBusy: a program has it open. kUnsupported: a newer format. kIo:
///         a file cannot be read for another reason than its contents, or nothing can be written;
///         kNoSpace.
Result<RepairReport> Repair(io::FileSystem& fs, const std::string& directory,
                            const RepairOptions& options);

}  // namespace quire::lsm
