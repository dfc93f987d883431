#include "io/files/posix_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <vector>

#include "base/core/log_sink.h"
#include "io/files/file_system_type.h"
#include "io/files/page_memory.h"
#include "io/files/posix_error.h"
#include "io/files/room.h"
#include "io/files/sync_places.h"
#include "io/memory/guarded_copy.h"
#include "io/memory/streaming_stores.h"

namespace quire::io {
namespace {

#ifndef MADV_POPULATE_READ
constexpr int MADV_POPULATE_READ = 22;  // Linux 5.14; older kernels answer EINVAL
constexpr int MADV_POPULATE_WRITE = 23;
#endif

// One system call moves at most this much: the kernel's own limit is just below 2 GiB.
constexpr size_t kCallBytesMax = size_t{1} << 30;
constexpr size_t kFillBytes = size_t{1} << 20;

std::string At(uint64_t offset) { return " at offset " + std::to_string(offset) + " of"; }

// A failed sync never returns kNoSpace: pages may have been dropped, so that a retry after making
// room would return a false success.
Status SyncStatus(int error, const std::string& path) {
  return Status(Code::kIo, ErrnoStatus(error, "sync", path).message());
}

Status DataSync(int fd, const std::string& path) {
  int result = 0;
  do {
    result = ::fdatasync(fd);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? Status() : SyncStatus(errno, path);
}

// Warns once in a process: every file on that file system is alike.
void WarnOfWritesElsewhere(const std::string& path, const char* type) {
  static std::atomic<bool> warned = false;
  if (!base::LogEnabled() || warned.exchange(true)) return;
  base::Log(LogLevel::kWarning, path + " is on " + type +
                                    ", which writes each change to a new place: if the file "
                                    "system runs full, the program can end with SIGBUS; keep "
                                    "space free, or put the repository elsewhere");
}

uint64_t PageBegin(uint64_t offset) { return offset / PageBytes() * PageBytes(); }

uint64_t PageEnd(uint64_t offset) { return PageBegin(offset + PageBytes() - 1); }

// Returns whether madvise reported that a fault would have ended the program.
bool IsLost(int error) { return error == EFAULT || error == EHWPOISON; }

// `advice`: a page that is to be stored to also needs space on some file systems.
Status LostPages(const std::string& path, uint64_t offset, uint64_t size, int advice) {
  const bool stores = advice == MADV_POPULATE_WRITE;
  return Status(Code::kIo, "cannot " + std::string(stores ? "store to" : "read") +
                               " the bytes from " + std::to_string(offset) + " to " +
                               std::to_string(offset + size) + " of " + path +
                               (stores ? ": the file system is full, " : ": ") +
                               "the device failed (look at the kernel's log), or another program "
                               "shortened the file; " +
                               (stores ? "make room, or restore it" : "restore it") +
                               " from a copy");
}

}  // namespace

Result<uint64_t> SizeOf(int fd, const std::string& path) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, "ask for the size of", path);
  return static_cast<uint64_t>(info.st_size);
}

Status ReadExactly(int fd, const std::string& path, uint64_t offset, size_t size, char* to) {
  size_t done = 0;
  while (done < size) {
    const size_t want = std::min(size - done, kCallBytesMax);
    const ssize_t got = ::pread(fd, to + done, want, static_cast<off_t>(offset + done));
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "read" + At(offset + done), path);
    }
    if (got == 0) {
      const Result<uint64_t> end = SizeOf(fd, path);
      return Status(Code::kCorruption, path + " ends at offset " +
                                           std::to_string(end.ok() ? *end : offset + done) + "; " +
                                           std::to_string(size) + " bytes at " +
                                           std::to_string(offset) + " were expected");
    }
    done += static_cast<size_t>(got);
  }
  return Status();
}

Status PosixFile::ReadAt(uint64_t offset, size_t size, char* to) const {
  return ReadExactly(fd_.get(), path_, offset, size, to);
}

Status PosixFile::WriteAt(uint64_t offset, Slice bytes) {
  while (!bytes.empty()) {
    const size_t want = std::min(bytes.size(), kCallBytesMax);
    const ssize_t put = ::pwrite(fd_.get(), bytes.data(), want, static_cast<off_t>(offset));
    if (put < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "write" + At(offset), path_);
    }
    bytes.remove_prefix(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return Status();
}

// A copy-on-write file system writes each page to a new place, whatever was set aside for the file:
// stores to a mapping of it raise SIGBUS if there is no room for that. On btrfs a flag makes a new
// file be written in place.
void PosixFile::WriteInPlace() {
  struct statfs system;
  if (::fstatfs(fd_.get(), &system) != 0) return;
  const char* const elsewhere = AlwaysWritesElsewhere(static_cast<uint32_t>(system.f_type));
  if (elsewhere != nullptr) return WarnOfWritesElsewhere(path_, elsewhere);
  if (system.f_type != BTRFS_SUPER_MAGIC) return;
  const Result<uint64_t> present = Size();
  int flags = 0;
  const bool known = ::ioctl(fd_.get(), FS_IOC_GETFLAGS, &flags) == 0;
  if (known && (flags & FS_NOCOW_FL) != 0) return;
  flags |= FS_NOCOW_FL;
  const bool fresh = present.ok() && *present == 0;
  if (known && fresh && ::ioctl(fd_.get(), FS_IOC_SETFLAGS, &flags) == 0) return;
  if (!base::LogEnabled()) return;
  base::Log(LogLevel::kWarning,
            path_ + " is written to a new place at each change (btrfs, without the attribute C): "
                    "if the file system runs full, the program can end with SIGBUS; recreate "
                    "the file in a directory without compression");
}

Status PosixFile::AllocateRange(uint64_t offset, uint64_t size) {
  if (size == 0) return Status();
  WriteInPlace();
  const int error = io::SetAside(fd_.get(), offset, size);
  if (error == 0) return Status();
  if (error == EOPNOTSUPP || error == ENOSYS) return AllocateByWriting(offset, size);
  return ErrnoStatus(error, "set aside " + std::to_string(size) + " bytes for", path_);
}

Status PosixFile::AllocateByWriting(uint64_t offset, uint64_t size) {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t present, SizeOf(fd_.get(), path_));
  std::vector<char> chunk(std::min<uint64_t>(kFillBytes, size));
  for (const uint64_t end = offset + size; offset < end; offset += chunk.size()) {
    const size_t length = std::min<uint64_t>(chunk.size(), end - offset);
    std::fill(chunk.begin(), chunk.end(), '\0');
    if (offset < present) {
      const size_t kept = std::min<uint64_t>(length, present - offset);
      QUIRE_RETURN_IF_ERROR(ReadAt(offset, kept, chunk.data()));
    }
    QUIRE_RETURN_IF_ERROR(WriteAt(offset, Slice(chunk.data(), length)));
  }
  // Later a part of it may be synced alone, and then the file must have its length.
  return DataSync(fd_.get(), path_);
}

Status PosixFile::Truncate(uint64_t size) {
  int result = 0;
  do {
    result = ::ftruncate(fd_.get(), static_cast<off_t>(size));
  } while (result != 0 && errno == EINTR);
  return result == 0 ? Status() : ErrnoStatus(errno, "truncate", path_);
}

Status PosixFile::Deallocate(uint64_t offset, uint64_t size) {
  if (size == 0) return Status();
  int result = 0;
  do {
    result = ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                         static_cast<off_t>(offset), static_cast<off_t>(size));
  } while (result != 0 && errno == EINTR);
  if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return Status();
  return ErrnoStatus(errno, "give back room" + At(offset), path_);
}

Status PosixFile::Sync() {
  return AtFileSync([this] { return DataSync(fd_.get(), path_); });
}

void PosixFile::StartWriteBack(uint64_t offset, uint64_t size) {
  // Without one of its WAIT flags it takes no error away from a later sync.
  ::sync_file_range(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(size),
                    SYNC_FILE_RANGE_WRITE);
}

Result<uint64_t> PosixFile::Size() const { return SizeOf(fd_.get(), path_); }

Result<std::unique_ptr<MappedFile>> PosixMappedFile::Map(const FileDescriptor& fd, std::string path,
                                                         uint64_t size, MapMode mode) {
  QUIRE_ASSIGN_OR_RETURN(const FileIdentity identity, IdentityOf(fd.get(), path));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t present, SizeOf(fd.get(), path));
  if (present < size) {
    return Status(Code::kCorruption, path + " ends at offset " + std::to_string(present) + "; " +
                                         std::to_string(size) + " bytes were to be mapped");
  }
  if (size == 0) return Status(Code::kInvalidArgument, "cannot map no bytes of " + path);
  const int protection = mode == MapMode::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  // Only persistent memory takes MAP_SYNC.
  void* address = MAP_FAILED;
  if (mode == MapMode::kReadWrite) {
    address = ::mmap(nullptr, size, protection, MAP_SHARED_VALIDATE | MAP_SYNC, fd.get(), 0);
  }
  const bool persistent = address != MAP_FAILED;
  if (!persistent) address = ::mmap(nullptr, size, protection, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) return ErrnoStatus(errno, "map", path);
  std::unique_ptr<PosixMappedFile> file(new PosixMappedFile(std::move(path), mode, identity));
  file->data_ = static_cast<char*>(address);
  file->size_ = size;
  file->persistent_ = persistent;
  struct statfs system;
  file->in_memory_ = persistent || (::fstatfs(fd.get(), &system) == 0 &&
                                    system.f_type == TMPFS_MAGIC);
  return std::unique_ptr<MappedFile>(std::move(file));
}

PosixMappedFile::~PosixMappedFile() { ::munmap(data_, size_); }

// Not fdatasync: it would write every page of the file that was stored to, and those of a log
// segment that was made present ahead of its writers are all such pages.
Status PosixMappedFile::Sync(uint64_t offset, uint64_t size) {
  if (size == 0 || offset >= size_) return Status();
  const uint64_t begin = PageBegin(offset);
  const uint64_t end = offset + std::min(size, size_ - offset);
  if (persistent_) {
    WriteBack(data_ + offset, end - offset);
    DrainStreamingStores();
    return Status();
  }
  int result = 0;
  do {
    result = ::msync(data_ + begin, end - begin, MS_SYNC);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? Status() : SyncStatus(errno, path_);
}

// Opens the file for one use, because a mapping keeps no descriptor.
Result<FileDescriptor> PosixMappedFile::OpenAgain(int access) const {
  FileDescriptor fd = FileDescriptor::Open(path_, access | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (!fd.ok()) return ErrnoStatus(errno, "open", path_);
  QUIRE_ASSIGN_OR_RETURN(const FileIdentity identity, IdentityOf(fd.get(), path_));
  if (identity == identity_) return fd;
  return Status(Code::kCorruption, path_ + " was replaced by another file while it was in use; "
                                           "open the database again");
}

// Allocates whole pages: a store to one takes all of its blocks, and a device may have smaller
// ones.
Status PosixMappedFile::SetAside(uint64_t begin, uint64_t end) {
  QUIRE_ASSIGN_OR_RETURN(FileDescriptor fd, OpenAgain(O_RDWR));
  const uint64_t page_end = std::min(PageEnd(end), size_);
  // For TakeLastPage: otherwise the kernel reads some MiB ahead for one page.
  static_cast<void>(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM));
  PosixFile file(std::move(fd), path_);
  QUIRE_RETURN_IF_ERROR(file.AllocateRange(begin, page_end - begin));
  return TakeLastPage(file, end);
}

// Linux keeps a file in memory in pieces of one page or of many (because readers read ahead). The
// first store to a page of a piece allocates blocks for the whole piece, as far as the file goes,
// so also behind the room. Pieces are aligned to their size, so that a piece across the end of the
// room contains the room's last page. That page gets its blocks now, when a full device is an
// error; as long as this piece is in memory no other piece can lie there.
Status PosixMappedFile::TakeLastPage(const File& file, uint64_t end) {
  if (in_memory_ || end >= size_) return Status();
  const uint64_t last = PageBegin(end - 1);
  char byte = 0;
  QUIRE_RETURN_IF_ERROR(file.ReadAt(last, 1, &byte));
  if (!IsLost(Populate(last, end - last, MADV_POPULATE_WRITE))) return Status();
  return ErrnoStatus(ENOSPC, "set aside the page" + At(last), path_);
}

// Without it, a store to a page that the device cannot supply would end the program.
Status PosixMappedFile::MakePresent(uint64_t offset, uint64_t size) {
  return BringIn(offset, size, MADV_POPULATE_WRITE);
}

Status PosixMappedFile::MakeReadable(uint64_t offset, uint64_t size) {
  if (size == 0 || offset >= size_) return Status();
  return BringIn(offset, std::min(size, size_ - offset), MADV_POPULATE_READ);
}

Status PosixMappedFile::BringIn(uint64_t offset, uint64_t size, int advice) {
  const int error = Populate(offset, size, advice);
  if (error == 0) return Status();
  if (IsLost(error)) return LostPages(path_, offset, size, advice);
  // The kernel is older, or has no memory at the moment. A load finds out whether the bytes are
  // there; if this thread cannot try one, a call that reads finds it out.
  if (CanGuard() && GuardedTouch(data_ + offset, size)) return Status();
  const Status read = ReadIn(offset, size);
  const bool certain = read.ok() || read.code() == Code::kOutOfMemory;
  return certain ? read : Status(Code::kIo, read.message());
}

// Reads the bytes by calls, after which the kernel has them in memory, where a load finds them.
Status PosixMappedFile::ReadIn(uint64_t offset, uint64_t size) const {
  QUIRE_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenAgain(O_RDONLY));
  std::vector<char> piece(std::min<uint64_t>(kFillBytes, size));
  for (const uint64_t end = offset + size; offset < end; offset += piece.size()) {
    const size_t length = std::min<uint64_t>(piece.size(), end - offset);
    QUIRE_RETURN_IF_ERROR(ReadExactly(fd.get(), path_, offset, length, piece.data()));
  }
  return Status();
}

// Returns the error, or 0. Kernels before Linux 5.14 refuse with EINVAL.
int PosixMappedFile::Populate(uint64_t offset, uint64_t size, int advice) {
  const uint64_t begin = PageBegin(offset);
  int result = 0;
  do {
    result = ::madvise(data_ + begin, offset + size - begin, advice);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

void PosixMappedFile::Prefault(uint64_t offset, uint64_t size) {
  if (offset >= size_) return;
  const uint64_t begin = PageBegin(offset);
  const uint64_t end = offset + std::min(size, size_ - offset);
  // Older kernels refuse; then the stores themselves fault the pages in, one by one.
  ::madvise(data_ + begin, end - begin,
            mode_ == MapMode::kRead ? MADV_POPULATE_READ : MADV_POPULATE_WRITE);
}

}  // namespace quire::io
