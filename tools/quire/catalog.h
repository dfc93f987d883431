/// Finds the repositories, databases, generations and parts that a path on the command line names.
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
  /// DATABASE is damaged, or missing on the node that had it: generations and parts are the
  /// existing ones.
  bool lost_descriptor = false;
  bool described = false;  ///< its DATABASE was read
  kv::DatabaseDescriptor descriptor;
  std::vector<PartOnDisk> parts;  ///< newest generation first, by rank
  std::string writer;       ///< the program that has the database, or a part of it, open; empty:
                            ///< none
};

/// Returns the databases that `path` names: all of a repository (on a node other than rank 0's:
/// their parts there), or the one whose directory it is. A directory that contains only parts (a
/// checkpoint, a generation), or a part's directory, is treated as a database. May return none.
/// Errors  kNotFound: `path` is not there; kIo.
Result<std::vector<DatabaseOnDisk>> DatabasesAt(io::FileSystem& fs, const std::string& path);
/// Returns the same, at least one. kNotFound: there is none; the text lists other data at the path.
Result<std::vector<DatabaseOnDisk>> FindDatabases(io::FileSystem& fs, const std::string& path);
/// Returns the bytes that the files in `directory` take on the device; 0 if it cannot be listed.
uint64_t AllocatedBytes(io::FileSystem& fs, const std::string& directory);
/// Returns the only one. kInvalidArgument, with their names: there are several.
Result<DatabaseOnDisk> FindDatabase(io::FileSystem& fs, const std::string& path);

/// Returns the directories of the datasets that `path` names: all of a repository, or itself; may
/// return none.
Result<std::vector<std::string>> FindDatasets(io::FileSystem& fs, const std::string& path);

/// Prints on standard error, if a job has the database open, that its memory is not shown.
void NoteWriter(const DatabaseOnDisk& place);
/// Returns the part after the last slash.
std::string LastPart(const std::string& path);
/// Returns the path of the lock file of a whole database.
std::string DatabaseLockPath(const std::string& directory);

}  // namespace quire::tool
