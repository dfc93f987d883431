/// The file DATABASE: describes a database in a few lines of text. Written by rank 0.
///
/// Layer      kv
/// Encoding   docs/format/database.md
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "quire/database.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::kv {

constexpr uint32_t kDescriptorVersion = 1;
/// "gen-<number>" in a database's directory, "rank-<r>" in a generation's.
constexpr char kGenerationDirectoryPrefix[] = "gen-";
constexpr char kPartDirectoryPrefix[] = "rank-";
/// "option.<name>" in a descriptor and in a checkpoint.
constexpr char kOptionPrefix[] = "option.";
/// The commit record of a checkpoint, in its directory.
constexpr char kCommitName[] = "CHECKPOINT";

/// The state of a database in its life. A database that is being created or destroyed does not
/// exist: the next open starts again, the next destroy continues. In kFilling, the newest
/// generation has only copies from the others: the next open starts it again.
enum class DescriptorState { kCreating, kReady, kDestroying, kFilling };

/// The data that one set of ranks wrote (docs/decisions/0009-persistence.md).
struct Generation {
  uint32_t number = 1;  ///< rising with each change of the ranks
  int rank_count = 0;
  std::string partitioner;
  std::string
      location;  ///< absolute path of a checkpoint that is used where it lies; empty: in the
                 ///< database's own directory
  uint64_t seal = 0;  ///< the checksum of that checkpoint's commit record: another checkpoint may
                      ///< take its place and its number. 0: the generation lies in the database's
                      ///< directory, or is older than these seals
};

struct DatabaseDescriptor {
  DescriptorState state = DescriptorState::kReady;
  /// Chosen at random when the database is created: a DATABASE on another node with another id
  /// belongs to another database. 0: the database is older than these ids.
  uint64_t id = 0;
  std::vector<Generation> generations;  ///< newest first; only the first is written to
  /// The last number under which a restart copied parts beside the database, or an open by more
  /// ranks created some; 0: there was none. These parts may be on nodes that are not here.
  uint32_t taken = 0;
  std::vector<std::string> options;  ///< "name=value" of the storage options it was last opened
                                     ///< with: for readers, not binding
};

/// Returns whether the database exists.
bool IsThere(const DatabaseDescriptor& descriptor);

/// Returns the first number that no generation has had, according to the descriptor.
uint32_t NextNumber(const DatabaseDescriptor& descriptor);

/// Returns whether these have the same number of ranks, the same partitioner and the same place.
bool SameGeneration(const Generation& a, const Generation& b);
/// Returns whether these are the same generations: none was added, removed or moved.
bool SameGenerations(const std::vector<Generation>& a, const std::vector<Generation>& b);

std::string EncodeDescriptor(const DatabaseDescriptor& descriptor);
/// Decodes a descriptor. Errors  kCorruption (names the line), kUnsupported (a newer version).
/// `path` is for the text.
Result<DatabaseDescriptor> DecodeDescriptor(Slice text, const std::string& path);

/// Returns the directory of the generation's parts, for a database in `directory`.
std::string GenerationDirectory(const std::string& directory, const Generation& generation);
/// Returns the part of the generation that `rank` wrote: <generation directory>/rank-<rank>
std::string PartDirectory(const std::string& directory, const Generation& generation, int rank);

/// Checks whether the checkpoint in which `generation` lies, if in one, is still the same.
/// Errors  kCorruption: it is gone, or another one is in its place. kIo.
Status CheckCheckpoint(io::FileSystem& fs, const Generation& generation);

/// <database directory>/DATABASE
std::string DescriptorPath(const std::string& directory);
/// Reads the descriptor. kNotFound: there is none.
Result<DatabaseDescriptor> ReadDescriptor(io::FileSystem& fs, const std::string& directory);
Status WriteDescriptor(io::FileSystem& fs, const std::string& directory,
                       const DatabaseDescriptor& descriptor);
/// Checks whether the descriptor in `directory` has the id and the generations of `known`. If a
/// database's directory is moved, its lock moves with it, but its path does not. So code that
/// replaces the descriptor long after the database was locked calls this first.
/// Errors  kBusy: it does not. Those of ReadDescriptor.
Status CheckSameDatabase(io::FileSystem& fs, const std::string& directory,
                         const DatabaseDescriptor& known);
/// Returns the storage options as "name=value".
std::vector<std::string> ShapingOptions(const DatabaseOptions& options);

}  // namespace quire::kv
