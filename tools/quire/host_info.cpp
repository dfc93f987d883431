#include "tools/quire/host_info.h"

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

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "io/files/descriptor.h"
#include "io/files/file_system.h"
#include "io/files/machine.h"

extern char** environ;

namespace quire::tool {
namespace {

constexpr std::chrono::seconds kProgramTimeout{20};
constexpr size_t kOutputBytesMax = 64 << 10;

// Reads everything from `fd` until its end; returns false if that takes too long.
bool ReadToEnd(int fd, std::string* text) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + kProgramTimeout;
  char buffer[4096];
  struct pollfd ready = {fd, POLLIN, 0};
  while (text->size() < kOutputBytesMax) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) != 1) return false;
    const ssize_t size = ::read(fd, buffer, sizeof buffer);
    if (size <= 0) return size == 0;
    text->append(buffer, static_cast<size_t>(size));
  }
  return false;
}

// Returns this program's environment, and what Open MPI needs to run as root and with few cores.
std::vector<std::string> EnvironmentOfLaunchers() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  for (const char* variable :
       {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
        "OMPI_MCA_rmaps_base_oversubscribe=1", "PRTE_ALLOW_RUN_AS_ROOT=1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1", "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe"})
    variables.emplace_back(variable);
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Starts `words` in a process group of its own, with its output to `fd`. Returns 0 if it cannot be
// started.
pid_t Spawn(std::vector<std::string> words, int fd) {
  std::vector<std::string> variables = EnvironmentOfLaunchers();
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fd, STDERR_FILENO);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, words[0].c_str(), &actions, &attributes,
                                  Pointers(words).data(), Pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? child : 0;
}

// Returns the process id in "quire-<uid>-<pid>-<random>", if the name is of this user.
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

uint64_t FileSystemBytes(const std::string& path) {
  struct statfs info;
  if (::statfs(path.c_str(), &info) != 0) return 0;
  return static_cast<uint64_t>(info.f_blocks) * static_cast<uint64_t>(info.f_bsize);
}

bool MakesNamelessFiles(const std::string& directory) {
  return io::FileDescriptor::Open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600).ok();
}

std::string FindProgram(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    const std::string candidate = rest.substr(0, end) + "/" + name;
    if (IsProgram(candidate)) return candidate;
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  return "";
}

bool IsProgram(const std::string& path) {
  return ::access(path.c_str(), X_OK) == 0;
}

std::string OwnDirectory() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

Ended RunProgram(const std::vector<std::string>& command) {
  Ended ended;
  auto [from, into] = io::FileDescriptor::Pipe();
  if (!from.ok()) return ended;
  const pid_t child = Spawn(command, into.get());
  into = io::FileDescriptor(-1);
  const bool in_time = child != 0 && ReadToEnd(from.get(), &ended.output);
  if (child == 0) return ended;
  if (!in_time) ::kill(-child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ended.fine = in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return ended;
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

std::vector<SharedMemoryFile> FindSharedMemoryFiles(const std::string& directory) {
  std::vector<SharedMemoryFile> regions;
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
