/// The files by which other programs find a daemon in its place: its process and its address.
///
/// Layer      tools
/// Threads    any
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "io/files/file_system.h"
#include "io/paths/made_paths.h"
#include "quire/status.h"

namespace quire::streamd {

constexpr char kTokenFile[] = ".token";
constexpr char kLogFile[] = ".daemon.log";

/// The content of the file `.daemon`.
struct DaemonFile {
  std::string address;
  std::string metadata;  ///< the service's address; empty: none
};

/// Locks the place, because there is one daemon per place. kBusy, with the daemon that runs there.
/// Records the lock's file in `made` unless it existed.
Result<std::unique_ptr<io::FileLock>> LockPlace(io::FileSystem& fs, const std::string& place,
                                                io::MadePaths* made);
Status WriteDaemonFile(io::FileSystem& fs, const std::string& place, const DaemonFile& file);
Result<DaemonFile> ReadDaemonFile(io::FileSystem& fs, const std::string& place);
/// Removes the file and the socket.
void RemoveDaemonFiles(io::FileSystem& fs, const std::string& place);

/// Returns the daemon of the place: "host pid 12 ..."; empty if there is none. The holder wrote
/// this text itself: use it only for display. kInvalidArgument: other users may write to the place.
Result<std::string> RunningDaemon(io::FileSystem& fs, const std::string& place);
/// Asks the process that listens at the place to end, and waits until it has. The kernel identifies
/// that process.
///
/// Errors  kNotFound: none runs. kInvalidArgument: it runs on another host or belongs to another
///         user, or other users may write to the place. kTimedOut.
Status StopDaemon(io::FileSystem& fs, const std::string& place, uint64_t timeout_ms);

}  // namespace quire::streamd
