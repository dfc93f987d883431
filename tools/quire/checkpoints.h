/// Checkpoints on disk, as paths on the command line name them; verified, and copied elsewhere.
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

/// Those that `path` names: of all databases there, of one database, or the one whose directory it
/// is. Perhaps none.
/// Errors  kNotFound: `path` is not there; kIo.
Result<std::vector<CheckpointPlace>> FindCheckpointPlaces(io::FileSystem& fs,
                                                          const std::string& path);
/// The one whose directory `path` is. kNotFound: it is none.
Result<CheckpointPlace> FindCheckpointPlace(io::FileSystem& fs, const std::string& path);

/// What is wrong with a file of a checkpoint.
struct CheckpointFinding {
  std::string path;
  Status status;
};
/// Reads every file and compares its sum with the one that was noted.
std::vector<CheckpointFinding> VerifyCheckpoint(
    io::FileSystem& fs, const std::string& directory,
    const std::function<void(uint64_t done, uint64_t total)>& progress, uint64_t* bytes);

/// Copies a complete checkpoint to <target>/<database>/<number>, every sum verified on the way; it
/// is there whole, or nothing of it is, nor a directory that was made for it. The directory of the
/// copy.
/// Errors  kInvalidArgument: there is one already; kBusy: it is just being written; kCorruption:
///         names the file; kNoSpace, kIo.
Result<std::string> ExportCheckpoint(
    io::FileSystem& fs, const CheckpointPlace& place, const std::string& target,
    const std::function<void(uint64_t done, uint64_t total)>& progress);

}  // namespace quire::tool
