/// A process of this machine, as one can ask later whether it still runs.
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

/// This process.
PeerProcess OwnProcess();
/// False once it has ended. Cost: two system calls and more.
bool IsRunning(const PeerProcess& process);

/// The start time in the contents of /proc/<id>/stat; 0 where it cannot be read.
uint64_t ParseProcessStart(const char* stat, uint64_t size);

}  // namespace quire::comm
