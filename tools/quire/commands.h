/// The commands of the program `quire`: their arguments and exit codes.
///
/// Layer      tools
/// Encoding   docs/tool.md
/// Threads    one
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quire/status.h"

namespace quire::tool {

/// The exit code of every command.
enum ExitCode : int {
  kFine = 0,        ///< done, and no problem was found
  kFoundWrong = 1,  ///< done, and a problem was found: damage, an absent key, a finding
  kWrongUsage = 2,  ///< not done: the command line is invalid
  kCannotRead = 3,  ///< not done: no such database, no permission, open elsewhere, no room
};

/// The form in which keys and values are printed.
enum class ByteFormat { kText, kHex, kJson };

struct PathsOptions {
  std::vector<std::string> paths;  ///< repositories, databases, checkpoints, parts
  bool json = false;
};

struct GetOptions {
  std::string path;
  std::vector<std::string> keys;
  bool hex_keys = false;
  bool json = false;
  ByteFormat format = ByteFormat::kText;
};

struct ScanCommandOptions {
  std::string path;
  std::string from;  ///< inclusive; empty: from the first key
  std::string to;    ///< exclusive; empty: to the last key
  bool hex_keys = false;
  bool keys_only = false;
  uint64_t limit = 0;  ///< 0: none
  bool json = false;
  ByteFormat format = ByteFormat::kText;
};

struct VerifyOptions {
  std::vector<std::string> paths;
  bool json = false;
  bool progress = false;  ///< also where standard error is no terminal
};

struct ChangeOptions {
  std::vector<std::string> paths;
  bool json = false;
  bool yes = false;  ///< if false, the command only prints what it would do
};

struct RepairCommandOptions : ChangeOptions {
  int rank_count = 0;       ///< for a new DATABASE; 0: taken from the parts
  std::string partitioner;  ///< for a new DATABASE; empty: the hash, if the keys agree
};

struct CleanOptions {
  std::vector<std::string> paths;
  std::string shared_memory = "/dev/shm";  ///< its mount point
  bool json = false;
  bool yes = false;
};

struct ExportOptions {
  std::string path;    ///< of a checkpoint
  std::string target;  ///< below which the copy is put
  bool json = false;
  bool progress = false;
};

struct DoctorOptions {
  std::string path = ".";  ///< the directory of a future repository
  bool json = false;
};

struct DatasetGetOptions {
  bool first = false;  ///< one value of a key in an epoch
  std::string path;
  std::vector<std::string> keys;
  std::optional<uint64_t> epoch;  ///< none: all, the trajectory
  bool hex_keys = false;
  bool json = false;
  ByteFormat format = ByteFormat::kText;
};

struct DatasetScanOptions {
  std::string path;
  uint64_t epoch = 0;
  uint64_t limit = 0;  ///< 0: none
  bool keys_only = false;
  bool json = false;
  ByteFormat format = ByteFormat::kText;
};

struct StreamPartOptions {
  std::string path;              ///< of the place
  std::string name;              ///< of the store; of `ls` empty: all
  std::optional<uint32_t> rank;  ///< none: all
  bool json = false;
  bool progress = false;
};

/// The form in which an object is printed.
enum class StreamFormat { kRaw, kText, kNpy };

struct StreamGetOptions {
  std::string path;  ///< of the place
  std::string name;
  uint32_t rank = 0;
  std::string key;
  bool hex_keys = false;
  uint64_t version = 0;   ///< 0: the newest
  uint64_t snapshot = 0;  ///< not 0: as it was then
  std::string output;     ///< a file; empty: standard output
  StreamFormat format = StreamFormat::kRaw;
  bool json = false;
};

int Ls(const PathsOptions& options);
int Stat(const PathsOptions& options);
int Get(const GetOptions& options);
int Scan(const ScanCommandOptions& options);
int Verify(const VerifyOptions& options);
int Repair(const RepairCommandOptions& options);
int Clean(const CleanOptions& options);
int CheckpointList(const PathsOptions& options);
int CheckpointVerify(const VerifyOptions& options);
int CheckpointDrop(const ChangeOptions& options);
int CheckpointExport(const ExportOptions& options);
int DatasetList(const PathsOptions& options);
int DatasetGet(const DatasetGetOptions& options);
int DatasetScanPairs(const DatasetScanOptions& options);
int DatasetVerify(const VerifyOptions& options);
int StreamList(const StreamPartOptions& options);
int StreamGet(const StreamGetOptions& options);
int StreamStat(const StreamPartOptions& options);
int StreamVerify(const StreamPartOptions& options);
int Doctor(const DoctorOptions& options);

}  // namespace quire::tool
