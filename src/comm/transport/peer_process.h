/// The identity of a process of this machine, by which other processes check whether it still runs.
///
/// Layer      comm
/// Threads    pure functions
#pragma once

#include <cstdint>

namespace quire::comm {

struct PeerProcess {
  int id = 0;          ///< 0: unknown, taken for running
  /// when it began [clock ticks since boot]: distinguishes it from a later one with the same id; 0:
  /// unknown
  uint64_t start = 0;
};

/// Returns this process.
PeerProcess OwnProcess();
/// Returns false once the process has ended. Cost: two or more system calls.
bool IsRunning(const PeerProcess& process);

/// Returns the start time in the contents of /proc/<id>/stat; 0 if it cannot be read.
uint64_t ParseProcessStart(const char* stat, uint64_t size);

}  // namespace quire::comm
