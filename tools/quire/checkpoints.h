/// Finds the checkpoints that a path on the command line names, verifies them, and copies them.
///
/// Layer      tools
/// Encoding   docs/format/checkpoint.md
/// Threads    one
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "kv/persistence/checkpoint_files.h"
#include "quire/status.h"

namespace quire::tool {

/// One checkpoint, in whatever state.
struct CheckpointPlace {
  std::string database;
  std::string home;  ///< the directory of all checkpoints of the database at that place
  kv::CheckpointFound found;
};

/// Returns the checkpoints that `path` names: of all databases there, of one database, or the one
/// whose directory it is. May return none.
/// Errors  kNotFound: `path` is not there; kIo.
Result<std::vector<CheckpointPlace>> FindCheckpointPlaces(io::FileSystem& fs,
                                                          const std::string& path);
/// Returns the checkpoint whose directory `path` is. kNotFound: it is no checkpoint.
Result<CheckpointPlace> FindCheckpointPlace(io::FileSystem& fs, const std::string& path);

/// A problem of a checkpoint's file.
struct CheckpointFinding {
  std::string path;
  Status status;
};
/// Reads every file and compares its checksum with the recorded one.
std::vector<CheckpointFinding> VerifyCheckpoint(
    io::FileSystem& fs, const std::string& directory,
    const std::function<void(uint64_t done, uint64_t total)>& progress, uint64_t* bytes);

/// Copies a complete checkpoint to <target>/<database>/<number>, and verifies every checksum
/// meanwhile. Either the copy is complete, or neither it nor a directory created for it remains.
/// Returns the directory of the copy.
/// Errors  kInvalidArgument: the copy exists already; kBusy: it is being written; kCorruption:
///         names the file; kNoSpace, kIo.
Result<std::string> ExportCheckpoint(
    io::FileSystem& fs, const CheckpointPlace& place, const std::string& target,
    const std::function<void(uint64_t done, uint64_t total)>& progress);

}  // namespace quire::tool
