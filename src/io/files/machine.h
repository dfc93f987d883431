/// The machine: clock, randomness, boot id, cores, memory limits, environment variables, processes.
/// No other code requests these from the system, so that simulations can replace them.
///
/// Layer      io
/// Threads    any
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quire/status.h"

namespace quire::io {

/// Monotonic time and sleeping.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual uint64_t NowNs() = 0;
  virtual void SleepNs(uint64_t ns) = 0;
};
Clock& RealClock();

/// Returns the seconds since 1970, for display: the clock may jump.
uint64_t UnixTime();
/// Returns the nanoseconds since 1970.
uint64_t UnixTimeNs();
/// Returns 64 random bits from the system, for names and epochs that must not collide. Not for
/// choices that a test must be able to repeat.
uint64_t RandomU64();
/// Returns the id of this boot of this machine: it changes when the page cache is lost. Never 0. (A
/// hash of the kernel's boot id.)
uint64_t BootId();
/// Returns the number of cores that this process may run on.
int CoreCount();
/// Returns the memory that this process may use: the cgroup's limit (v2, v1), or the machine's
/// memory.
uint64_t MemoryLimitBytes();
/// Returns the id of this machine and container for shared memory: ranks with equal ids can map
/// each other's /dev/shm.
uint64_t NodeId();
/// Returns the id of this machine, equal in all its containers: ranks with equal ids always see the
/// same contents of a file that both see.
uint64_t MachineId();
/// "host pid 123 job 456", for lock files.
std::string ProcessDescription();
int ProcessId();
/// Returns whether a process with that id is alive on this machine (and visible to us).
bool ProcessAlive(int pid);
/// Returns the value of an environment variable.
std::optional<std::string> Environment(const char* name);
/// The names, sorted, of the environment variables that begin with `prefix` and are not empty.
std::vector<std::string> EnvironmentNames(const std::string& prefix);
/// Returns `path` as an absolute path, by the current working directory; resolves "." and ".." as
/// the kernel does.
Result<std::string> AbsolutePath(const std::string& path);
/// Fails if Quire does not run on this machine (big-endian, ...). Context calls it once.
Status CheckMachine();
/// Resident memory of this process now, and its anonymous part [bytes].
struct MemoryUse {
  uint64_t resident_bytes;
  uint64_t anonymous_bytes;
  uint64_t peak_resident_bytes;
};
MemoryUse ProcessMemory();

}  // namespace quire::io
