/// The files of a checkpoint: its directories, its commit record, its lists of files.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 4.2; docs/decisions/0009-persistence.md
/// Encoding   docs/format/checkpoint.md
/// Threads    pure functions of their arguments and the files
/// Invariants a directory whose name is a number, and that has a commit record, is a complete
///            checkpoint
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "kv/protocol/descriptor.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::kv {

/// Names in a checkpoint's directory, beside kCommitName.
constexpr char kFilesName[] = "FILES";
constexpr char kFailedName[] = "FAILED";

/// One file of a part.
struct StoredFile {
  uint64_t bytes = 0;
  uint64_t identity = 0;  ///< engine::Capture::File::identity
  uint64_t sum = 0;
};
/// FILES: the list of the files of a part.
struct FileList {
  std::map<std::string, StoredFile> files;
  uint64_t bytes() const;
};
/// CHECKPOINT: the commit record.
struct CommitRecord {
  struct Part {
    uint64_t files = 0;
    uint64_t bytes = 0;
    uint64_t sum = 0;  ///< of its FILES: the value of the last line
  };
  std::string database;
  std::string partitioner;
  uint64_t time = 0;  ///< [seconds since 1970]
  std::vector<std::string> options;
  std::vector<Part> parts;  ///< by rank
  uint64_t seal = 0;        ///< of the text from which it was read: the value of the last line
};

std::string EncodeFileList(const FileList& list);
Result<FileList> DecodeFileList(Slice text, const std::string& path);
std::string EncodeCommitRecord(const CommitRecord& record);
Result<CommitRecord> DecodeCommitRecord(Slice text, const std::string& path);

/// Returns the entry of `list` in a commit record.
CommitRecord::Part PartOf(const FileList& list, Slice encoded);

/// Returns the sum of a file, `so_far` (0 at its beginning), continued by the piece at `offset`.
/// Pieces have kSumPieceBytes, except for the last.
uint64_t AddToSum(uint64_t so_far, uint64_t offset, Slice piece);
constexpr uint64_t kSumPieceBytes = 1 << 20;
/// Returns the sum of the first `bytes` of a file, read in pieces; calls `advance` for each piece.
Result<uint64_t> SumOfFile(const io::File& file, uint64_t bytes,
                           const std::function<void(uint64_t bytes)>& advance);

/// Returns damage for a missing file that must exist; never kNotFound.
Status MissingFile(const std::string& path);
/// Returns kIo for a failure with the code kNotFound, which would be an answer; else `status`.
Status AsFailure(const Status& status);
/// Reads FILES of the part in `directory`, and checks that it is the one of `part`.
Result<FileList> ReadFileList(io::FileSystem& fs, const std::string& directory,
                              const CommitRecord::Part& part);
/// Reads the commit record of the complete checkpoint in `directory`.
Result<CommitRecord> ReadCommitRecord(io::FileSystem& fs, const std::string& directory);

enum class CheckpointState {
  kComplete,
  kPartial,  ///< being written
  kFailed,   ///< left unfinished
  kDropped,  ///< being removed
  kUnrecorded,  ///< its name is a number, but it has no commit record: none of ours, or damaged
};
/// An existing checkpoint, in whatever state.
struct CheckpointFound {
  uint64_t number = 0;
  CheckpointState state = CheckpointState::kComplete;
  std::string directory;
};
/// <path>/<database>
std::string CheckpointHome(const std::string& path, const std::string& database);
/// <home>/<number>, and <home>/.partial-<number>
std::string CheckpointDirectory(const std::string& home, uint64_t number);
std::string PartialDirectory(const std::string& home, uint64_t number);
/// Returns the checkpoints in `home`, by rising number. No directory: none. Tests locks, and takes
/// none.
Result<std::vector<CheckpointFound>> FindCheckpoints(io::FileSystem& fs, const std::string& home);
/// Removes a checkpoint. Renames it first, so that no checkpoint is ever incomplete. Removes
/// everything in its directory, and nothing outside of it.
/// Errors  kInvalidArgument: it is kUnrecorded, and stays as it is; kNotFound, kIo.
Status DropCheckpoint(io::FileSystem& fs, const std::string& home, const CheckpointFound& found);
/// Does the same in pieces, each about 10 ms: true once it is gone, else `*found` is what is left.
Result<bool> DropSome(io::FileSystem& fs, const std::string& home, CheckpointFound* found);

}  // namespace quire::kv
