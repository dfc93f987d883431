/// The machine around us: clock, randomness, boot id, cores, memory limits, environment variables,
/// processes. Nothing else asks the system for these, so that simulations can stand in.
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

/// Seconds since 1970, for people to read: it may jump.
uint64_t UnixTime();
/// The same in nanoseconds.
uint64_t UnixTimeNs();
/// 64 random bits from the system, for names and epochs that must not collide. Not for choices a
/// test replays.
uint64_t RandomU64();
/// This boot of this machine: changes when the page cache is lost. Never 0. (A hash of the kernel's
/// boot id.)
uint64_t BootId();
/// Cores this process may run on.
int CoreCount();
/// The memory this process may use: the cgroup's limit (v2, v1), or the machine's memory.
uint64_t MemoryLimitBytes();
/// This machine and container, as far as sharing memory goes: ranks with equal ids can map each
/// other's /dev/shm.
uint64_t NodeId();
/// This machine, all its containers: files that ranks with equal ids both see, they see alike at
/// every time.
uint64_t MachineId();
/// "host pid 123 job 456", for lock files.
std::string ProcessDescription();
int ProcessId();
/// True while a process with that id lives on this machine (and is ours to see).
bool ProcessAlive(int pid);
/// An environment variable.
std::optional<std::string> Environment(const char* name);
/// The names, sorted, of the environment variables that begin with `prefix` and are not empty.
std::vector<std::string> EnvironmentNames(const std::string& prefix);
/// `path` from the root, by the working directory of now; "." and ".." resolved as the kernel does.
Result<std::string> AbsolutePath(const std::string& path);
/// Fails where the machine is not one Quire runs on (big-endian, ...). Called once by Context.
Status CheckMachine();
/// Resident memory of this process now, and its anonymous part [bytes].
struct MemoryUse {
  uint64_t resident_bytes;
  uint64_t anonymous_bytes;
  uint64_t peak_resident_bytes;
};
MemoryUse ProcessMemory();

}  // namespace quire::io
