/// Looks at every file of one rank's database and says of each whether it is sound; goes on where
/// opening would give up. Nothing is written, no lock is taken.
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

/// Something wrong.
struct Finding {
  FileKind kind = FileKind::kManifest;
  uint64_t number = 0;  ///< in the file's name
  std::string path;
  Status status;       ///< kCorruption (the file is damaged or gone), kIo, kUnsupported
  uint64_t count = 1;  ///< value segment: values that cannot be read
};

struct InspectOptions {
  StorageOptions storage;
  bool has_lock = false;  ///< the caller has the database's lock: its log is looked at all the same
  bool contents = true;   ///< false: whether files are there and can be opened, no more
  /// bytes verified so far, and in all
  std::function<void(uint64_t done, uint64_t total)> progress;
};

struct Inspection {
  DirectoryContents files;
  bool has_manifest = false;  ///< a sound one
  Manifest manifest;
  std::string writer;  ///< the program that has it open; empty: none
  std::vector<Finding> findings;
  /// sound ones: those listed, or without a manifest all that are there
  std::vector<table::TableInfo> tables;
  std::vector<table::TableInfo> damaged_tables;  ///< those of the others that can be opened
  uint64_t values = 0;       ///< separated ones that were verified
  uint64_t bytes = 0;        ///< that were verified
  uint64_t log_records = 0;  ///< in no table yet; not examined while a program has it open
  uint64_t log_holes = 0;
};

/// Errors  kNotFound: nothing of a database is in `directory`. kIo: it cannot be listed. What is
///         wrong with files is among the findings; what vanished because a writer replaced it is
///         not.
Result<Inspection> Inspect(io::FileSystem& fs, const std::string& directory,
                           const InspectOptions& options);

}  // namespace quire::lsm
