#include "tools/quire/machine_facts.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "io/file_system.h"
#include "io/machine.h"

extern char** environ;

namespace quire::tool {
namespace {

constexpr int kProgramTimeoutMs = 10'000;
constexpr size_t kOutputBytesMax = 64 << 10;

struct KnownType {
  uint64_t number;
  const char* name;
  bool shared;
};
// From statfs(2) and the file systems' own sources.
constexpr KnownType kKnownTypes[] = {
    {0xEF53, "ext4", false},      {0x58465342, "xfs", false},     {0x9123683E, "btrfs", false},
    {0x01021994, "tmpfs", false}, {0x794C7630, "overlay", false}, {0x2FC12FC1, "zfs", false},
    {0xF2F52010, "f2fs", false},  {0x6969, "nfs", true},          {0x0BD00BD0, "lustre", true},
    {0x47504653, "gpfs", true},   {0x19830326, "beegfs", true},   {0x00C36400, "ceph", true},
    {0xFF534D42, "cifs", true},   {0xFE534D42, "smb2", true},     {0x65735546, "fuse", true},
    {0x01021997, "9p", true},     {0xAAD7AAEA, "panfs", true},    {0x5346414F, "afs", true},
};

std::string Hexadecimal(uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

// Everything that comes through `fd` until it ends; false where that takes too long.
bool ReadToEnd(int fd, std::string* text) {
  char buffer[4096];
  struct pollfd ready = {fd, POLLIN, 0};
  while (text->size() < kOutputBytesMax && ::poll(&ready, 1, kProgramTimeoutMs) == 1) {
    const ssize_t size = ::read(fd, buffer, sizeof buffer);
    if (size <= 0) return size == 0;
    text->append(buffer, static_cast<size_t>(size));
  }
  return false;
}

// "quire-<uid>-<pid>-<random>": the process id, where it is this user's.
std::optional<int> CreatorIn(const std::string& name) {
  unsigned user = 0;
  int process = 0;
  unsigned long long random = 0;
  char rest = 0;
  const int fields =
      std::sscanf(name.c_str(), "quire-%u-%d-%16llx%c", &user, &process, &random, &rest);
  if (fields != 3 || user != ::geteuid() || process <= 0) return std::nullopt;
  return process;
}

}  // namespace

std::string FileSystemType(const std::string& path) {
  struct statfs info;
  if (::statfs(path.c_str(), &info) != 0) return "unknown";
  const auto number = static_cast<uint32_t>(info.f_type);
  for (const KnownType& type : kKnownTypes) {
    if (type.number == number) return type.name;
  }
  return Hexadecimal(number);
}

bool IsShared(const std::string& type) {
  for (const KnownType& known : kKnownTypes) {
    if (type == known.name) return known.shared;
  }
  return false;
}

uint64_t FileSystemBytes(const std::string& path) {
  struct statfs info;
  if (::statfs(path.c_str(), &info) != 0) return 0;
  return static_cast<uint64_t>(info.f_blocks) * static_cast<uint64_t>(info.f_bsize);
}

bool MakesNamelessFiles(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  ::close(fd);
  return true;
}

std::string FindProgram(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    const std::string candidate = rest.substr(0, end) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  return "";
}

std::optional<std::string> OutputOf(const std::string& program, const std::string& argument) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  char* const arguments[] = {const_cast<char*>(program.c_str()),
                             const_cast<char*>(argument.c_str()), nullptr};
  pid_t child = 0;
  const int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string text;
  const bool ended = error == 0 && ReadToEnd(ends[0], &text);
  ::close(ends[0]);
  if (error != 0) return std::nullopt;
  if (!ended) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  const bool fine = ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return fine ? std::optional(text) : std::nullopt;
}

std::optional<uint64_t> LimitOf(Limit limit) {
  struct rlimit value;
  int result = -1;
  switch (limit) {
    case Limit::kOpenFiles:
      result = ::getrlimit(RLIMIT_NOFILE, &value);
      break;
    case Limit::kLockedBytes:
      result = ::getrlimit(RLIMIT_MEMLOCK, &value);
      break;
    case Limit::kProcesses:
      result = ::getrlimit(RLIMIT_NPROC, &value);
      break;
  }
  if (result != 0 || value.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return static_cast<uint64_t>(value.rlim_cur);
}

std::string KernelName() {
  struct utsname name;
  if (::uname(&name) != 0) return "unknown";
  return std::string(name.sysname) + " " + name.release + " " + name.machine;
}

std::vector<SharedRegion> FindSharedRegions(const std::string& directory) {
  std::vector<SharedRegion> regions;
  const Result<std::vector<io::FileInfo>> files = io::PosixFileSystem().List(directory);
  if (!files.ok()) return regions;
  for (const io::FileInfo& file : *files) {
    const std::optional<int> creator = CreatorIn(file.name);
    const std::string path = directory + "/" + file.name;
    struct stat info;
    if (!creator || ::lstat(path.c_str(), &info) != 0) continue;
    if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) continue;
    const time_t age = ::time(nullptr) - info.st_mtime;
    regions.push_back({path, file.size, *creator, io::ProcessAlive(*creator),
                       age > 0 ? static_cast<uint64_t>(age) : 0});
  }
  return regions;
}

}  // namespace quire::tool
