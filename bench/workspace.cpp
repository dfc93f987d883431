#include "workspace.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "samples.h"

namespace quire::bench {
namespace {

Status SystemError(const std::string& what) {
  return Status(Code::kIo, what + ": " + std::strerror(errno));
}

}  // namespace

Result<TemporaryDirectory> TemporaryDirectory::Make(const std::string& parent) {
  std::error_code ignored;
  std::filesystem::create_directories(parent, ignored);
  std::string path = parent + "/quire-bench-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    return SystemError("cannot make a directory under " + parent + " (choose another --directory)");
  }
  return TemporaryDirectory(std::move(path));
}

TemporaryDirectory::TemporaryDirectory(TemporaryDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

TemporaryDirectory& TemporaryDirectory::operator=(TemporaryDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TemporaryDirectory::~TemporaryDirectory() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Result<WrittenBytes> ReadWrittenBytes() {
  std::ifstream file("/proc/self/io");
  if (!file) return SystemError("/proc/self/io");
  WrittenBytes bytes;
  uint64_t cancelled = 0;
  std::string name;
  for (uint64_t count = 0; file >> name >> count;) {
    if (name == "wchar:") bytes.calls = count;
    if (name == "write_bytes:") bytes.device = count;
    if (name == "cancelled_write_bytes:") cancelled = count;
  }
  bytes.device -= cancelled < bytes.device ? cancelled : bytes.device;
  return bytes;
}

uint64_t DiskUsageBytes(const std::string& directory) {
  uint64_t total = 0;
  std::error_code error;
  for (auto at = std::filesystem::recursive_directory_iterator(directory, error);
       !error && at != std::filesystem::recursive_directory_iterator(); at.increment(error)) {
    struct stat info {};
    // A file may vanish in between: background work goes on.
    if (::lstat(at->path().c_str(), &info) == 0)
      total += static_cast<uint64_t>(info.st_blocks) * 512;
  }
  return total;
}

Status SyncFileSystem(const std::string& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return SystemError(directory);
  const int result = ::syncfs(descriptor);
  Status status = result == 0 ? Status() : SystemError("syncfs " + directory);
  ::close(descriptor);
  return status;
}

std::string FileSystemName(const std::string& directory) {
  struct statfs info {};
  if (::statfs(directory.c_str(), &info) != 0) return "unknown";
  switch (static_cast<uint32_t>(info.f_type)) {
    case 0xEF53:
      return "ext4";
    case 0x01021994:
      return "tmpfs";
    case 0x58465342:
      return "xfs";
    case 0x9123683E:
      return "btrfs";
    case 0x794c7630:
      return "overlayfs";
    case 0x0BD00BD0:
      return "lustre";
    case 0x6969:
      return "nfs";
    default:
      return "type " + std::to_string(info.f_type);
  }
}

double ProcessCpuSeconds() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Status WaitUntilQuiet(double timeout_s) {
  constexpr double kQuietSeconds = 0.3;
  constexpr double kQuietShare = 0.02;
  const Stopwatch total;
  while (total.Seconds() < timeout_s) {
    const double before = ProcessCpuSeconds();
    std::this_thread::sleep_for(std::chrono::duration<double>(kQuietSeconds));
    if (ProcessCpuSeconds() - before < kQuietSeconds * kQuietShare) return Status();
  }
  return Status(Code::kTimedOut, "background work did not end");
}

}  // namespace quire::bench
