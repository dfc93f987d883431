/// Bounds how many descriptors of files that are only read stay open: at most half of the process's
/// limit (RLIMIT_NOFILE). The least used ones are closed; a file is opened again by its path when
/// it is read, and compared with the file that was open before.
///
/// Layer      io (internal)
/// Source     the clock algorithm (Corbato, 1968), over all such files of the process
/// Threads    any number. A read of a file that is open takes no lock.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "io/files/descriptor.h"
#include "quire/status.h"

namespace quire::io {

/// The identity of a file, which distinguishes it from a later file at its path. Files that exist
/// at the same time differ in device or inode; a file that was created after the first one was
/// removed may have the same inode, but a later birth time (zeros: the file system does not record
/// it).
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  int64_t born_s = 0;
  uint32_t born_ns = 0;
  bool operator==(const FileIdentity&) const = default;
};

/// Errors  kIo, kOutOfMemory.
Result<FileIdentity> IdentityOf(int fd, const std::string& path);

/// The descriptor of one file that is only read; closed while others are used more.
class CachedDescriptor {
 public:
  /// Keeps the descriptor open while it exists.
  class Use {
   public:
    explicit Use(CachedDescriptor* owner) : owner_(owner) {}
    Use(Use&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    Use& operator=(Use&&) = delete;
    ~Use();
    int get() const { return owner_->fd_; }

   private:
    CachedDescriptor* owner_;
  };

  /// `fd` is the file at `path`, opened with `flags`.
  CachedDescriptor(FileDescriptor fd, std::string path, int flags, const FileIdentity& identity);
  /// No Use of it exists.
  ~CachedDescriptor();
  CachedDescriptor(const CachedDescriptor&) = delete;
  CachedDescriptor& operator=(const CachedDescriptor&) = delete;

  /// Returns the descriptor, after opening the file again if it was closed.
  ///
  /// Errors  kCorruption: the path names no file any more, or a different one. kIo, kOutOfMemory.
  /// Cost    If open: two atomic additions. If closed: open(2) and two system calls that compare
  ///         the file.
  Result<Use> Get();
  const std::string& path() const { return path_; }

 private:
  friend class DescriptorCache;
  static constexpr uint32_t kOpen = uint32_t{1} << 31;

  Status Reopen();
  Result<FileDescriptor> OpenAgain() const;
  // Returns the descriptor to close it; not ok() if a Use exists. Only the cache calls it.
  FileDescriptor TryClose();

  std::atomic<uint32_t> state_;        // kOpen, and how many Uses exist or are asked for
  std::atomic<bool> was_used_ = true;  // since the eviction clock passed last
  int fd_;                             // changes only while kOpen is not set
  CachedDescriptor* next_ = this;      // of those that are open; by the cache's mutex
  CachedDescriptor* previous_ = this;
  std::mutex opening_;
  const std::string path_;
  const int flags_;
  const FileIdentity identity_;
};

/// Closes one such descriptor that is not in use, for a caller that found none free (EMFILE).
/// Returns false if there is none.
bool CloseIdleDescriptor();

}  // namespace quire::io
