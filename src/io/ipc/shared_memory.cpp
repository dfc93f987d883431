#include "io/ipc/shared_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/text/units.h"
#include "io/files/file_system.h"
#include "io/files/machine.h"
#include "io/files/posix_error.h"
#include "io/files/posix_file.h"
#include "io/files/room.h"

namespace quire::io {
namespace {

constexpr char kDirectory[] = "/dev/shm/";
constexpr char kNamePrefix[] = "quire-";
constexpr int kNameAttempts = 8;
constexpr uint64_t kSleepSecondsMax = 1'000'000;

// "quire-<uid>-<pid>-<random>": the process id lets a clean-up find what a dead creator left.
std::string NewName() {
  char text[96];
  std::snprintf(text, sizeof text, "%s%u-%d-%016llx", kNamePrefix, ::geteuid(), ::getpid(),
                static_cast<unsigned long long>(RandomU64()));
  return text;
}

Status ShmStatus(int error, const std::string& action, const std::string& path) {
  const Status status = ErrnoStatus(error, action, path);
  if (error == ENOSPC) {
    return Status(Code::kNoSpace, status.message() +
                                      " (shared memory: raise the size of /dev/shm, or of the "
                                      "container's --shm-size)");
  }
  if (error == ENOENT || error == EACCES || error == EROFS || error == ENOTDIR) {
    return Status(Code::kIo,
                  status.message() + " (shared memory: /dev/shm must be mounted and writable)");
  }
  return status;
}

std::atomic<uint64_t> size_limit{UINT64_MAX};

Status SetAsideStatus(int error, uint64_t size, const std::string& path) {
  if (error == 0) return Status();
  return ShmStatus(error, "set aside " + std::to_string(size) + " bytes for", path);
}

// Allocates the first `room` bytes, and fails if there is no room for all.
Status AllocateFirst(int fd, uint64_t size, uint64_t room, const std::string& path) {
  if (size > size_limit.load()) return SetAsideStatus(ENOSPC, size, path);
  struct statvfs info;
  const bool full = room < size && ::fstatvfs(fd, &info) == 0 && info.f_blocks != 0 &&
                    static_cast<uint64_t>(info.f_bavail) * info.f_frsize < size;
  if (full) return SetAsideStatus(ENOSPC, size, path);
  QUIRE_RETURN_IF_ERROR(SetAsideStatus(SetAside(fd, 0, room), room, path));
  if (room < size && ::ftruncate(fd, static_cast<off_t>(size)) != 0) {
    return ShmStatus(errno, "set the size of", path);
  }
  return Status();
}

Result<char*> MapShared(int fd, uint64_t size, int protection, const std::string& what) {
  const int flags = fd >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS;
  void* address = ::mmap(nullptr, size, protection, flags, fd, 0);
  if (address == MAP_FAILED) return ShmStatus(errno, "map", what);
  return static_cast<char*>(address);
}

Status CheckRegion(int fd, uint64_t size, const std::string& path) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return ShmStatus(errno, "ask about", path);
  std::string problem;
  if (!S_ISREG(info.st_mode)) {
    problem = "is not a regular file";
  } else if (info.st_uid != ::geteuid()) {
    problem = "belongs to user " + std::to_string(info.st_uid);
  } else if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    problem = "is open to other users";
  } else if (static_cast<uint64_t>(info.st_size) < size) {
    problem = "has " + std::to_string(info.st_size) + " bytes, not " + std::to_string(size);
  }
  if (problem.empty()) return Status();
  return Status(Code::kInvalidArgument,
                "shared memory " + path + " " + problem + "; it is not a region of this job");
}

}  // namespace

Result<std::unique_ptr<SharedMemory>> SharedMemory::Create(uint64_t size, uint64_t room) {
  if (size == 0) return Status(Code::kInvalidArgument, "shared memory of no bytes was asked for");
  std::unique_ptr<SharedMemory> memory(new SharedMemory);
  FileDescriptor fd(-1);
  for (int attempt = 0; !fd.ok() && attempt < kNameAttempts; ++attempt) {
    memory->name_ = NewName();
    fd = FileDescriptor::Open(kDirectory + memory->name_,
                              O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (!fd.ok() && errno != EEXIST) break;
  }
  const std::string path = kDirectory + memory->name_;
  if (!fd.ok()) return ShmStatus(errno, "create", path);
  memory->owner_ = true;  // from here on, failing takes the name away
  room = std::min(room, size);
  QUIRE_RETURN_IF_ERROR(AllocateFirst(fd.get(), size, room, path));
  QUIRE_ASSIGN_OR_RETURN(memory->data_, MapShared(fd.get(), size, PROT_READ | PROT_WRITE, path));
  memory->size_ = size;
  if (room < size) memory->fd_ = std::move(fd);
  return memory;
}

Status SharedMemory::SetAside(uint64_t offset, uint64_t size) {
  if (!fd_.ok()) return Status();  // all was allocated at once, or it is private memory
  const bool limited = offset + size > size_limit.load();
  const int error = limited ? ENOSPC : io::SetAside(fd_.get(), offset, size);
  return SetAsideStatus(error, size, kDirectory + name_);
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::CreatePrivate(uint64_t size) {
  if (size == 0) return Status(Code::kInvalidArgument, "shared memory of no bytes was asked for");
  std::unique_ptr<SharedMemory> memory(new SharedMemory);
  QUIRE_ASSIGN_OR_RETURN(memory->data_,
                         MapShared(-1, size, PROT_READ | PROT_WRITE, "private memory"));
  memory->size_ = size;
  return memory;
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::Open(const std::string& name, uint64_t size,
                                                         Access access) {
  QUIRE_RETURN_IF_ERROR(CheckName(name));  // it came from another process
  if (!name.starts_with(kNamePrefix) || size == 0) {
    return Status(Code::kInvalidArgument, "\"" + name + "\" names no shared memory of Quire");
  }
  const std::string path = kDirectory + name;
  if (size > size_limit.load()) return ShmStatus(ENOMEM, "open", path);
  const int mode = access == Access::kRead ? O_RDONLY : O_RDWR;
  const FileDescriptor fd = FileDescriptor::Open(path, mode | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (!fd.ok()) {
    if (errno == ENOENT) return ErrnoStatus(errno, "open", path);
    return ShmStatus(errno, "open", path);
  }
  QUIRE_RETURN_IF_ERROR(CheckRegion(fd.get(), size, path));
  std::unique_ptr<SharedMemory> memory(new SharedMemory);
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  QUIRE_ASSIGN_OR_RETURN(memory->data_, MapShared(fd.get(), size, protection, path));
  memory->size_ = size;
  memory->name_ = name;
  return memory;
}

void SharedMemory::LimitForTests(uint64_t size) {
  size_limit.store(size);
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
  if (owner_) Unlink();
}

void SharedMemory::Unlink() {
  if (name_.empty()) return;
  ::unlink((kDirectory + name_).c_str());  // it may be gone already
  owner_ = false;
}

std::string UserDirectory(const std::string& purpose) {
  return std::string(kDirectory) + kNamePrefix + purpose + "-" + std::to_string(::geteuid());
}

void FutexWait(const std::atomic<uint32_t>* word, uint32_t expected, uint64_t timeout_ns) {
  struct timespec timeout;
  timeout.tv_sec = static_cast<time_t>(std::min(timeout_ns / base::kNsPerSecond, kSleepSecondsMax));
  timeout.tv_nsec = static_cast<long>(timeout_ns % base::kNsPerSecond);
  // Not FUTEX_PRIVATE: the word may lie in other processes too. Every outcome (woken, changed
  // already, interrupted, timed out) is a return to a caller that looks at the word again.
  ::syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

void FutexWake(const std::atomic<uint32_t>* word, int count) {
  ::syscall(SYS_futex, word, FUTEX_WAKE, count, nullptr, nullptr, 0);
}

}  // namespace quire::io
