#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/core/log_sink.h"
#include "io/files/file_system.h"
#include "io/files/file_system_type.h"
#include "io/files/fork_closed.h"
#include "io/files/immutable_file.h"
#include "io/files/machine.h"
#include "io/files/ownership.h"
#include "io/files/posix_error.h"
#include "io/files/posix_file.h"
#include "io/files/remove_tree.h"
#include "io/files/sync_places.h"

namespace quire::io {
namespace {

constexpr mode_t kFilePermissions = 0600;
constexpr mode_t kDirectoryPermissions = 0700;
constexpr size_t kHolderBytesMax = 512;
constexpr int kLockAttempts = 16;

int FlagsOf(FileOpenMode mode) {
  switch (mode) {
    case FileOpenMode::kRead:
    case FileOpenMode::kReadImmutable:
    case FileOpenMode::kReadNamed:
      return O_RDONLY;
    case FileOpenMode::kReadWrite:
      return O_RDWR;
    case FileOpenMode::kCreate:
      return O_RDWR | O_CREAT | O_EXCL;
    case FileOpenMode::kReadWriteCreate:
      return O_RDWR | O_CREAT;
  }
  return O_RDONLY;
}

// Opens without following a link, and without waiting if a user has put a named pipe there.
constexpr int kOpenFlags = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;

Result<FileDescriptor> OpenRegular(const std::string& path, int flags) {
  FileDescriptor fd = FileDescriptor::Open(path, flags | kOpenFlags, kFilePermissions);
  if (!fd.ok()) return ErrnoStatus(errno, "open", path);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "ask about", path);
  if (!S_ISREG(info.st_mode)) {
    return Status(Code::kInvalidArgument, path + " is not a regular file; remove it");
  }
  if ((flags & O_ACCMODE) != O_RDONLY) QUIRE_RETURN_IF_ERROR(CheckOwnFile(info, path));
  return fd;
}

std::string ReadHolder(int fd) {
  char text[kHolderBytesMax];
  const ssize_t size = ::pread(fd, text, sizeof text, 0);
  std::string holder(text, size > 0 ? static_cast<size_t>(size) : 0);
  for (char& c : holder) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  while (!holder.empty() && holder.back() == ' ') holder.pop_back();
  return holder.empty() ? "a process that has not written its name" : holder;
}

struct flock WholeFile(short type) {
  struct flock region = {};
  region.l_type = type;
  region.l_whence = SEEK_SET;
  return region;
}

class PosixFileLock : public FileLock {
 public:
  PosixFileLock(FileDescriptor fd, const NoFork& no_fork) : fd_(std::move(fd), no_fork) {}
  ~PosixFileLock() override {
    if (fd_.get() < 0) return;  // a forked child's copy: the parent has the lock
    // Unlocks explicitly, not only by closing, so that the lock is free even if something else
    // still holds the description.
    struct flock region = WholeFile(F_UNLCK);
    ::fcntl(fd_.get(), F_OFD_SETLK, &region);
  }

 private:
  ForkClosed fd_;
};

// Returns the reason why the lock was refused.
Status LockedElsewhere(int fd, const std::string& path) {
  struct flock region = WholeFile(F_RDLCK);
  const bool only_read = ::fcntl(fd, F_OFD_GETLK, &region) == 0 && region.l_type == F_UNLCK;
  return LockedStatus(path, only_read ? kReadingHolder : ReadHolder(fd));
}

// Returns whether the error means that the file system has no locks at all.
bool NoLocks(int error) {
  return error == ENOSYS || error == EOPNOTSUPP || error == EINVAL;
}

Status NoLocksStatus(int error, const std::string& path) {
  const std::string type = FileSystemType(path);
  std::string advice = "choose a repository on another file system";
  if (type == "lustre") advice = "have it mounted with the option flock, or " + advice;
  if (type == "nfs") advice = "have its server run a lock manager (NFS 3: no nolock), or " + advice;
  // ENOLCK may be temporary.
  return Status(error == ENOLCK ? Code::kIo : Code::kUnsupported,
                "cannot lock " + path + ": its file system (" + type +
                    ") offers no locks: " + ErrnoText(error) + "; " + advice);
}

// Returns OK if locked; kNotFound if the file was unlinked meanwhile (then retry).
Status LockDescriptor(int fd, short type, const std::string& path) {
  struct flock region = WholeFile(type);
  if (::fcntl(fd, F_OFD_SETLK, &region) != 0) {
    if (errno == EAGAIN || errno == EACCES) return LockedElsewhere(fd, path);
    if (NoLocks(errno) || errno == ENOLCK) return NoLocksStatus(errno, path);
    return ErrnoStatus(errno, "lock", path);
  }
  struct stat info;
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, "ask about", path);
  return info.st_nlink == 0 ? Status(Code::kNotFound) : Status();
}

Status WriteHolder(int fd, const std::string& path, const std::string& holder) {
  FileDescriptor copy = FileDescriptor::Duplicate(fd);
  if (!copy.ok()) return ErrnoStatus(errno, "write the lock's holder into", path);
  PosixFile file(std::move(copy), path);
  QUIRE_RETURN_IF_ERROR(file.Truncate(0));
  return file.WriteAt(0, Slice(holder).substr(0, kHolderBytesMax));
}

// Some file systems (FUSE, CIFS, 9p) cannot sync directories: names in them become durable when the
// server decides, and no call changes that. Logs this once in a process.
void WarnOfUnsynced(const std::string& directory, int error) {
  static std::atomic<bool> said = false;
  if (said.exchange(true)) return;
  base::Log(LogLevel::kWarning,
            "the directory " + directory + " cannot be synced (" + ErrnoText(error) +
                ", file system " + FileSystemType(directory) +
                "): after a loss of power, files that were made or renamed shortly before may be "
                "missing; choose another file system if this matters");
}

class PosixFs : public FileSystem {
 public:
  Result<std::unique_ptr<File>> Open(const std::string& path, FileOpenMode mode) override {
    QUIRE_ASSIGN_OR_RETURN(FileDescriptor fd, OpenRegular(path, FlagsOf(mode)));
    if (mode == FileOpenMode::kReadImmutable || mode == FileOpenMode::kReadNamed) {
      return NewImmutableFile(std::move(fd), path, FlagsOf(mode) | kOpenFlags,
                              mode == FileOpenMode::kReadNamed);
    }
    return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(fd), path));
  }

  Result<std::unique_ptr<MappedFile>> Map(const std::string& path, uint64_t size,
                                          MapMode mode) override {
    QUIRE_ASSIGN_OR_RETURN(const FileDescriptor fd,
                           OpenRegular(path, mode == MapMode::kRead ? O_RDONLY : O_RDWR));
    return PosixMappedFile::Map(fd, path, size, mode);
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return Status();
    return ErrnoStatus(errno, "rename " + from + " to", to);
  }

  Status Unlink(const std::string& path) override {
    return ::unlink(path.c_str()) == 0 ? Status() : ErrnoStatus(errno, "remove", path);
  }

  Status Link(const std::string& from, const std::string& to) override {
    if (::link(from.c_str(), to.c_str()) == 0) return Status();
    const Status failed = ErrnoStatus(errno, "link " + from + " to", to);
    // EMLINK: the file has the maximum of names; EPERM: the file system has no links.
    const bool refused = errno == EXDEV || errno == EPERM || errno == EOPNOTSUPP ||
                         errno == ENOSYS || errno == EMLINK || errno == EACCES;
    return refused ? Status(Code::kUnsupported, std::string(failed.message())) : failed;
  }

  Status MakeDirectory(const std::string& path) override {
    if (::mkdir(path.c_str(), kDirectoryPermissions) == 0) return Status();
    if (errno == ENOENT) return NoParentStatus(path);
    if (errno != EEXIST) return ErrnoStatus(errno, "make the directory", path);
    return CheckOwnDirectory(path);
  }
  Status CheckDirectory(const std::string& path) override { return CheckOwnDirectory(path); }
  Result<uint32_t> SoleWriter(const std::string& path) override { return SoleWriterOf(path); }

  Status RemoveDirectory(const std::string& path) override {
    if (::rmdir(path.c_str()) == 0) return Status();
    return ErrnoStatus(errno, "remove the directory", path);
  }
  Result<bool> RemoveSome(const std::string& directory, size_t* most) override {
    return RemoveSomeAt(directory, most);
  }

  Result<std::vector<FileInfo>> List(const std::string& directory) override;
  Status SyncDirectory(const std::string& directory) override;
  Result<std::unique_ptr<OpenDirectory>> OpenForSync(const std::string& directory) override;
  Result<bool> Exists(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path,
                                         const std::string& holder) override;
  Result<std::unique_ptr<FileLock>> LockShared(const std::string& path) override;
  Result<std::string> LockHolder(const std::string& path) override;
  Result<uint64_t> FreeBytes(const std::string& path) override;
  uint64_t BootId() override { return io::BootId(); }
};

Result<std::vector<FileInfo>> PosixFs::List(const std::string& directory) {
  // Follows links: the directory was opened and checked by the same path before.
  FileDescriptor fd = FileDescriptor::Open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!fd.ok()) return ErrnoStatus(errno, "list", directory);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.get()), ::closedir);
  if (!stream) return ErrnoStatus(errno, "list", directory);
  fd.Release();  // the stream closes it
  std::vector<FileInfo> files;
  while (true) {
    errno = 0;
    const struct dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) {
      if (errno != 0) return ErrnoStatus(errno, "list", directory);
      break;
    }
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat info;
    if (::fstatat(::dirfd(stream.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // removed since readdir
      return ErrnoStatus(errno, "ask about", directory + "/" + name);
    }
    const uint64_t modified_ns = static_cast<uint64_t>(info.st_mtim.tv_sec) * 1'000'000'000 +
                                 static_cast<uint64_t>(info.st_mtim.tv_nsec);
    files.push_back(
        {name, S_ISDIR(info.st_mode), static_cast<uint64_t>(info.st_size), modified_ns,
         static_cast<uint64_t>(info.st_blocks) * 512});
  }
  std::sort(files.begin(), files.end(),
            [](const FileInfo& a, const FileInfo& b) { return a.name < b.name; });
  return files;
}

Status SyncOpen(const FileDescriptor& fd, const std::string& directory) {
  int result = 0;
  do {
    result = ::fsync(fd.get());
  } while (result != 0 && errno == EINTR);
  if (result == 0) return Status();
  if (errno == EINVAL || errno == EROFS || errno == ENOSYS || errno == EOPNOTSUPP) {
    WarnOfUnsynced(directory, errno);
    return Status();
  }
  return Status(Code::kIo, ErrnoStatus(errno, "sync the directory", directory).message());
}

class PosixDirectory final : public OpenDirectory {
 public:
  PosixDirectory(FileDescriptor fd, std::string path)
      : fd_(std::move(fd)), path_(std::move(path)) {}

  Status Sync() override {
    if (!fd_.ok()) {
      WarnOfUnsynced(path_, EACCES);  // the user may create files in it, but not read it
      return Status();
    }
    return AtDirectorySync([&] { return SyncOpen(fd_, path_); });
  }

 private:
  const FileDescriptor fd_;
  const std::string path_;
};

Result<std::unique_ptr<OpenDirectory>> PosixFs::OpenForSync(const std::string& directory) {
  // Links are followed: directories above a repository may be reached through them ($SCRATCH).
  FileDescriptor fd = FileDescriptor::Open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!fd.ok() && errno != EACCES) return ErrnoStatus(errno, "open the directory", directory);
  return std::unique_ptr<OpenDirectory>(std::make_unique<PosixDirectory>(std::move(fd), directory));
}

Status PosixFs::SyncDirectory(const std::string& directory) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<OpenDirectory> opened, OpenForSync(directory));
  return opened->Sync();
}

Result<bool> PosixFs::Exists(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT) return false;
  return ErrnoStatus(errno, "ask about", path);
}

Result<std::unique_ptr<FileLock>> PosixFs::Lock(const std::string& path,
                                                const std::string& holder) {
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    const NoFork no_fork;
    QUIRE_ASSIGN_OR_RETURN(FileDescriptor fd, OpenRegular(path, O_RDWR | O_CREAT));
    const Status locked = LockDescriptor(fd.get(), F_WRLCK, path);
    if (locked.code() == Code::kNotFound) continue;
    QUIRE_RETURN_IF_ERROR(locked);
    // On a full device the lock is valid without its text: a full database can still be read.
    const Status written = WriteHolder(fd.get(), path, holder);
    if (!written.ok() && written.code() != Code::kNoSpace) return written;
    return std::unique_ptr<FileLock>(std::make_unique<PosixFileLock>(std::move(fd), no_fork));
  }
  return Status(Code::kBusy, path + " is removed again and again by another process");
}

Result<std::unique_ptr<FileLock>> PosixFs::LockShared(const std::string& path) {
  const NoFork no_fork;
  QUIRE_ASSIGN_OR_RETURN(FileDescriptor fd, OpenRegular(path, O_RDONLY));
  const Status locked = LockDescriptor(fd.get(), F_RDLCK, path);
  // If there are no locks, Lock fails, too, so that no process can write the files that are read.
  if (!locked.ok() && locked.code() != Code::kUnsupported) return locked;
  return std::unique_ptr<FileLock>(std::make_unique<PosixFileLock>(std::move(fd), no_fork));
}

Result<std::string> PosixFs::LockHolder(const std::string& path) {
  const Result<FileDescriptor> fd = OpenRegular(path, O_RDONLY);
  if (fd.status().code() == Code::kNotFound) return std::string();
  QUIRE_RETURN_IF_ERROR(fd.status());
  struct flock region = WholeFile(F_RDLCK);  // conflicts only with a lock of Lock
  if (::fcntl(fd->get(), F_OFD_GETLK, &region) != 0) {
    if (NoLocks(errno)) return std::string();  // no process can have one
    return ErrnoStatus(errno, "ask about the lock on", path);
  }
  return region.l_type == F_UNLCK ? std::string() : ReadHolder(fd->get());
}

Result<uint64_t> PosixFs::FreeBytes(const std::string& path) {
  struct statvfs info;
  int result = 0;
  do {
    result = ::statvfs(path.c_str(), &info);
  } while (result != 0 && errno == EINTR);
  if (result != 0) return ErrnoStatus(errno, "ask for the free space at", path);
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

}  // namespace

FileSystem& PosixFileSystem() {
  static PosixFs* const file_system = new PosixFs;  // never destroyed: see the contract
  return *file_system;
}

}  // namespace quire::io
