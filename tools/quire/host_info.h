/// Facts about the machine, for quire doctor and quire clean.
///
/// Layer      tools
/// Threads    one
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quire::tool {

/// Returns the size of the file system [bytes]; 0: unknown.
uint64_t FileSystemBytes(const std::string& path);
/// Returns whether an unnamed file can be created in `directory` (O_TMPFILE).
bool MakesNamelessFiles(const std::string& directory);

/// Returns the path of a program, as the shell would find it; empty if there is none.
std::string FindProgram(const std::string& name);
/// Returns whether the program exists and this user may run it.
bool IsProgram(const std::string& path);
/// Returns the directory of this program.
std::string OwnDirectory();
/// The end of a program.
struct Ended {
  bool fine = false;   ///< it ended by itself, in time, and successfully
  std::string output;  ///< what it printed, as far as it came
};
/// Runs `command` (its first word is a path) to its end; after some seconds kills it and all
/// processes that it started. Launchers of MPI are permitted to run as root and with more ranks
/// than cores.
Ended RunProgram(const std::vector<std::string>& command);

/// A soft limit of this process; none: unlimited.
enum class Limit { kOpenFiles, kLockedBytes, kProcesses };
std::optional<uint64_t> LimitOf(Limit limit);
/// "Linux 5.10.0 x86_64"
std::string KernelName();

/// A region of shared memory of this user whose name is one of Quire's.
struct SharedMemoryFile {
  std::string path;
  uint64_t bytes = 0;
  int creator = 0;  ///< process
  bool creator_alive = false;
  uint64_t age_seconds = 0;  ///< since it was last written to by a call, or made
};
/// Returns those in `directory`, the mount point of shared memory.
std::vector<SharedMemoryFile> FindSharedMemoryFiles(const std::string& directory);

}  // namespace quire::tool
