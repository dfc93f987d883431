#include "io/files/machine.h"

#include <sched.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>

#include "base/core/check.h"
#include "base/hash/hash.h"
#include "base/text/units.h"
#include "io/files/file_system.h"
#include "io/files/posix_error.h"
#include "io/files/proc_file.h"

namespace quire::io {
namespace {

class SystemClock : public Clock {
 public:
  uint64_t NowNs() override {
    struct timespec now;
    ::clock_gettime(CLOCK_MONOTONIC, &now);  // cannot fail with this clock
    return static_cast<uint64_t>(now.tv_sec) * base::kNsPerSecond +
           static_cast<uint64_t>(now.tv_nsec);
  }

  void SleepNs(uint64_t ns) override {
    struct timespec rest;
    rest.tv_sec = static_cast<time_t>(ns / base::kNsPerSecond);
    rest.tv_nsec = static_cast<long>(ns % base::kNsPerSecond);
    while (::clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, &rest) == EINTR) {
    }
  }
};

std::string HostName() {
  struct utsname name;
  return ::uname(&name) == 0 ? name.nodename : "unknown-host";
}

// Returns "device:inode" of `path`; empty if it does not exist.
std::string Identity(const char* path) {
  struct stat info;
  if (::stat(path, &info) != 0) return "";
  return std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
}

// Ranks share memory if they see the same /dev/shm, and can watch each other if they see the same
// process ids. The host name distinguishes machines that are copies of each other, boot id
// included.
uint64_t ComputeNodeId() {
  if (const auto forced = Environment("QUIRE_NODE_ID")) return base::HashKey(*forced);
  return base::HashKey(std::to_string(BootId()) + "/" + Identity("/dev/shm") + "/" +
                       Identity("/proc/self/ns/pid") + "/" + HostName());
}

constexpr char kBootIdFile[] = "/proc/sys/kernel/random/boot_id";

// Returns whether the file that `text` was read from exists, though nothing could be read.
bool IsShort(const char* proc_file, const std::string& text) {
  return text.empty() && ::access(proc_file, R_OK) == 0;
}

// A process that has ended and waits to be collected by its parent still answers signals.
bool IsZombie(int pid) {
  const std::string stat = ReadProcFile("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = stat.rfind(')');  // the name may itself contain ')' and spaces
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return false;
  return stat[name_end + 2] == 'Z' || stat[name_end + 2] == 'X';
}

}  // namespace

Clock& RealClock() {
  static SystemClock* const clock = new SystemClock;
  return *clock;
}

uint64_t UnixTime() {
  return static_cast<uint64_t>(std::max<time_t>(::time(nullptr), 0));
}

uint64_t UnixTimeNs() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(std::max<time_t>(now.tv_sec, 0)) * 1'000'000'000 +
         static_cast<uint64_t>(now.tv_nsec);
}

uint64_t RandomU64() {
  uint64_t bits = 0;
  ssize_t got = 0;
  do {
    got = ::getrandom(&bits, sizeof bits, 0);
  } while (got < 0 && errno == EINTR);
  QUIRE_CHECK(got == sizeof bits);  // cannot fail otherwise for so few bytes on Linux >= 3.17
  return bits;
}

// If the boot cannot be identified, a new number makes the weakest claim. It is not stored if only
// a descriptor was missing: the next call may have one.
uint64_t BootId() {
  static std::atomic<uint64_t> known{0};
  uint64_t first = known.load(std::memory_order_relaxed);
  if (first != 0) return first;
  const std::string text = ReadProcFile(kBootIdFile);
  const uint64_t id = std::max<uint64_t>(text.empty() ? RandomU64() : base::HashKey(text), 1);
  if (IsShort(kBootIdFile, text)) return id;
  return known.compare_exchange_strong(first, id) ? id : first;
}

int CoreCount() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);  // more cores than cpu_set_t has bits
  return online > 0 ? static_cast<int>(online) : 1;
}

uint64_t NodeId() {
  return ComputeNodeId();
}

uint64_t MachineId() {
  const auto forced = Environment("QUIRE_NODE_ID");
  return forced ? base::HashKey(*forced) : BootId();
}

std::string ProcessDescription() {
  std::string text = HostName() + " pid " + std::to_string(::getpid());
  for (const char* variable : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"}) {
    if (const auto job = Environment(variable)) return text + " job " + *job;
  }
  return text;
}

int ProcessId() {
  return ::getpid();
}

bool ProcessAlive(int pid) {
  if (pid <= 0) return false;
  if (::kill(pid, 0) != 0) return errno == EPERM;
  return !IsZombie(pid);
}

std::optional<std::string> Environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::vector<std::string> EnvironmentNames(const std::string& prefix) {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (text.rfind(prefix, 0) != 0 || equals >= text.size() - 1) continue;
    names.push_back(text.substr(0, equals));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> AbsolutePath(const std::string& path) {
  if (path.empty()) return Status(Code::kInvalidArgument, "a path is empty; give a directory");
  std::string whole;
  if (path[0] != '/') {
    char directory[PATH_MAX];
    if (::getcwd(directory, sizeof directory) == nullptr) {
      return ErrnoStatus(errno, "find the working directory of", path);
    }
    whole = directory;
    if (whole[0] != '/') {
      return Status(Code::kNotFound, "the working directory of the relative path " + path +
                                         " is not reachable from the root; name it from the root");
    }
  }
  // The meaning of ".." depends on the links before it, so the kernel resolves it. The rest need
  // not exist.
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    whole += "/" + part;
    if (part != "..") continue;
    const std::unique_ptr<char, void (*)(void*)> real(::realpath(whole.c_str(), nullptr), ::free);
    if (!real) return ErrnoStatus(errno, "find", whole);
    whole = real.get() == std::string("/") ? "" : real.get();
  }
  return whole.empty() ? "/" : whole;
}

Status CheckMachine() {
  if (std::endian::native != std::endian::little) {
    return Status(Code::kUnsupported, "Quire runs on little-endian machines; this one is not");
  }
  if (sizeof(void*) != 8) {
    return Status(Code::kUnsupported, "Quire maps whole files; it needs a 64-bit process");
  }
  for (const char* const file : {kBootIdFile, "/proc/self/status"}) {
    if (!IsShort(file, ReadProcFile(file))) continue;
    return Status(Code::kOutOfMemory, std::string("cannot read ") + file +
                                          ": raise the limit of open files (ulimit -n)");
  }
  if (::access("/proc/self/status", R_OK) != 0) {
    return Status(Code::kUnsupported, "/proc is not there; mount it (boot id, memory limits)");
  }
  return Status();
}

MemoryUse ProcessMemory() {
  const std::string status = ReadProcFile("/proc/self/status");
  return {ProcField(status, "VmRSS:") * 1024, ProcField(status, "RssAnon:") * 1024,
          ProcField(status, "VmHWM:") * 1024};
}

}  // namespace quire::io
