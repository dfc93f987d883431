/// What is on disk, as a path on the command line names it: repositories, databases, their
/// generations and parts.
///
/// Layer      tools
/// Encoding   docs/format/database.md
/// Threads    pure functions of what is on disk
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "kv/protocol/descriptor.h"
#include "lsm/offline/reader.h"
#include "quire/status.h"

namespace quire::tool {

/// The part of one rank.
struct PartOnDisk {
  uint32_t generation = 0;
  int rank = 0;
  std::string directory;
  bool here = false;  ///< false: on another node's device, or gone
};

struct DatabaseOnDisk {
  std::string name;
  std::string directory;
  Status status;  ///< what is wrong with its descriptor
  /// DATABASE is damaged, or gone from the node that had it: generations and parts are those that
  /// are there.
  bool lost_descriptor = false;
  bool described = false;  ///< its DATABASE was read
  kv::DatabaseDescriptor descriptor;
  std::vector<PartOnDisk> parts;  ///< newest generation first, by rank
  std::string writer;       ///< the program that has it, or a part of it, open; empty: none
};

/// The databases that `path` names: all of a repository (on a node other than rank 0's: their parts
/// there), or the one whose directory it is; of a
/// directory with parts alone (a checkpoint, a generation), or a part's own, something like one.
/// Perhaps none.
/// Errors  kNotFound: `path` is not there; kIo.
Result<std::vector<DatabaseOnDisk>> DatabasesAt(io::FileSystem& fs, const std::string& path);
/// The same, at least one. kNotFound: none is there; the text says what is.
Result<std::vector<DatabaseOnDisk>> FindDatabases(io::FileSystem& fs, const std::string& path);
/// Bytes that the files in `directory` take on the device; of a directory that cannot be listed 0.
uint64_t AllocatedBytes(io::FileSystem& fs, const std::string& directory);
/// Returns the only one. kInvalidArgument, with their names: there are several.
Result<DatabaseOnDisk> FindDatabase(io::FileSystem& fs, const std::string& path);

/// The directories of the datasets that `path` names: all of a repository, or its own; perhaps
/// none.
Result<std::vector<std::string>> FindDatasets(io::FileSystem& fs, const std::string& path);

/// Says on standard error, if a job has the database open, that its memory is not shown.
void NoteWriter(const DatabaseOnDisk& place);
/// Returns the part after the last slash.
std::string LastPart(const std::string& path);
/// The file of the lock over a whole database.
std::string DatabaseLockPath(const std::string& directory);

}  // namespace quire::tool
