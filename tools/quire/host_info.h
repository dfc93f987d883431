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

/// Bytes of the file system in all; 0: unknown.
uint64_t FileSystemBytes(const std::string& path);
/// Whether a file without a name can be made in `directory` (O_TMPFILE).
bool MakesNamelessFiles(const std::string& directory);

/// The path of a program, as the shell would find it; empty: there is none.
std::string FindProgram(const std::string& name);
/// Whether there is such a program, and this user may run it.
bool IsProgram(const std::string& path);
/// The directory of this program.
std::string OwnDirectory();
/// How a program ended.
struct Ended {
  bool fine = false;   ///< by itself, in time, and successfully
  std::string output;  ///< what it printed, as far as it came
};
/// Runs `command` (its first word a path) to its end; some seconds later it is killed, with all it
/// started. Launchers of MPI are permitted to run as root and with more ranks than cores.
Ended RunProgram(const std::vector<std::string>& command);

/// A soft limit of this process; none: unlimited.
enum class Limit { kOpenFiles, kLockedBytes, kProcesses };
std::optional<uint64_t> LimitOf(Limit limit);
/// "Linux 5.10.0 x86_64"
std::string KernelName();

/// A region of shared memory with the name that Quire gives, of this user.
struct SharedMemoryFile {
  std::string path;
  uint64_t bytes = 0;
  int creator = 0;  ///< process
  bool creator_alive = false;
  uint64_t age_seconds = 0;  ///< since it was last written to by a call, or made
};
/// Those in `directory`, where shared memory is mounted.
std::vector<SharedMemoryFile> FindSharedMemoryFiles(const std::string& directory);

}  // namespace quire::tool
