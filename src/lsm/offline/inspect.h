/// Examines every file of one rank's database and reports whether it is sound; continues where
/// opening would stop. Writes nothing and takes no lock.
///
/// Layer      lsm (tools)
/// Source     LevelDB's RepairDB for what may be left
/// Encoding   docs/format/manifest.md, segment.md, table.md
/// Threads    pure functions of what is on disk
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "lsm/version/manifest.h"
#include "lsm/version/recovery.h"
#include "quire/options.h"
#include "quire/status.h"
#include "table/table.h"

namespace quire::lsm {

enum class FileKind { kManifest, kTable, kValueSegment, kLog };

/// Something wrong with a file.
struct Finding {
  FileKind kind = FileKind::kManifest;
  uint64_t number = 0;  ///< in the file's name
  std::string path;
  Status status;       ///< kCorruption (the file is damaged or gone), kIo, kUnsupported
  uint64_t count = 1;  ///< value segment: values that cannot be read
};

struct InspectOptions {
  StorageOptions storage;
  bool has_lock = false;  ///< the caller has the database's lock: its log is examined all the same
  bool contents = true;   ///< false: only checks that files exist and can be opened
  /// called with the bytes verified so far, and in all
  std::function<void(uint64_t done, uint64_t total)> progress;
};

struct Inspection {
  DirectoryContents files;
  bool has_manifest = false;  ///< a sound one
  Manifest manifest;
  std::string writer;  ///< the program that has it open; empty: none
  std::vector<Finding> findings;
  /// sound tables: those listed, or without a manifest all that exist
  std::vector<table::TableInfo> tables;
  std::vector<table::TableInfo> damaged_tables;  ///< tables that are not sound, but can be opened
  uint64_t values = 0;       ///< separated ones that were verified
  uint64_t bytes = 0;        ///< that were verified
  uint64_t log_records = 0;  ///< in no table yet; not examined while a program has it open
  uint64_t log_holes = 0;
};

/// Inspects the database in `directory`.
/// Errors  kNotFound: nothing of a database is in `directory`. kIo: it cannot be listed. Damage to
///         files is among the findings; a file that vanished because a writer replaced it is not.
Result<Inspection> Inspect(io::FileSystem& fs, const std::string& directory,
                           const InspectOptions& options);

}  // namespace quire::lsm
