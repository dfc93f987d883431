#include "io/files/descriptor_cache.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "io/files/posix_error.h"

namespace quire::io {
namespace {

// Applies if there is no limit: each open file takes memory of the kernel.
constexpr rlim_t kOpenMax = rlim_t{1} << 16;

// Reads the limit each time, because the program may change it. The call is cheap beside open(2).
size_t OpenMax() {
  struct rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kOpenMax;
  return static_cast<size_t>(std::min(limit.rlim_cur / 2, kOpenMax));
}

Status Gone(const std::string& path, const char* why) {
  return Status(Code::kCorruption, path + " " + why +
                                       " since it was opened, and cannot be read further; restore "
                                       "the file that was there, and open the database again");
}

}  // namespace

// The open files, in a circle.
class DescriptorCache {
 public:
  static DescriptorCache& Get();

  // Adds an open file.
  void Add(CachedDescriptor* file) {
    const size_t open_max = OpenMax();
    FileDescriptor closed(-1);  // without the mutex
    do {
      const std::lock_guard<std::mutex> lock(mutex_);
      closed = count_ < open_max ? FileDescriptor(-1) : CloseOneLocked();
      if (!closed.ok()) InsertLocked(file);  // also if all are being read at this moment
    } while (closed.ok());
  }

  void Remove(CachedDescriptor* file) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (file->state_.load(std::memory_order_relaxed) != 0) RemoveLocked(file);
  }

  FileDescriptor CloseOne() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return CloseOneLocked();
  }

 private:
  // Closes a file. The hand skips each file once if it was used since the last round, and also
  // while it is in use.
  FileDescriptor CloseOneLocked() {
    for (size_t steps = 2 * count_; steps > 0; --steps) {
      CachedDescriptor* const file = std::exchange(hand_, hand_->next_);
      if (file->was_used_.exchange(false, std::memory_order_relaxed)) continue;
      FileDescriptor fd = file->TryClose();
      if (!fd.ok()) continue;
      RemoveLocked(file);
      return fd;
    }
    return FileDescriptor(-1);
  }

  // Inserts a file where the hand passes last.
  void InsertLocked(CachedDescriptor* file) {
    if (hand_ == nullptr) hand_ = file;
    file->next_ = hand_;
    file->previous_ = std::exchange(hand_->previous_, file);
    file->previous_->next_ = file;
    ++count_;
  }

  void RemoveLocked(CachedDescriptor* file) {
    if (hand_ == file) hand_ = file->next_ == file ? nullptr : file->next_;
    file->previous_->next_ = file->next_;
    file->next_->previous_ = file->previous_;
    file->next_ = file->previous_ = file;
    --count_;
  }

  std::mutex mutex_;
  CachedDescriptor* hand_ = nullptr;
  size_t count_ = 0;
};

// A forked child may read files of its own, so that no thread that it does not have may hold the
// mutex.
DescriptorCache& DescriptorCache::Get() {
  static DescriptorCache* const cache = [] {
    auto* const made = new DescriptorCache;  // never destroyed: files may outlive statics
    // Fails only for lack of memory.
    static_cast<void>(::pthread_atfork([] { Get().mutex_.lock(); }, [] { Get().mutex_.unlock(); },
                                       [] { Get().mutex_.unlock(); }));
    return made;
  }();
  return *cache;
}

Result<FileIdentity> IdentityOf(int fd, const std::string& path) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, "ask about", path);
  FileIdentity identity = {info.st_dev, info.st_ino, 0, 0};
  struct statx more;
  const bool told = ::statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &more) == 0;
  if (!told && errno == ENOMEM) return ErrnoStatus(errno, "ask about", path);
  if (told && (more.stx_mask & STATX_BTIME) != 0) {
    identity.born_s = more.stx_btime.tv_sec;
    identity.born_ns = more.stx_btime.tv_nsec;
  }
  return identity;
}

CachedDescriptor::Use::~Use() {
  if (owner_ != nullptr) owner_->state_.fetch_sub(1, std::memory_order_release);
}

CachedDescriptor::CachedDescriptor(FileDescriptor fd, std::string path, int flags,
                                   const FileIdentity& identity)
    : state_(kOpen), fd_(fd.get()), path_(std::move(path)), flags_(flags), identity_(identity) {
  DescriptorCache::Get().Add(this);
  fd.Release();
}

CachedDescriptor::~CachedDescriptor() {
  DescriptorCache::Get().Remove(this);
  if (state_.load(std::memory_order_relaxed) != 0) const FileDescriptor closed(fd_);
}

Result<CachedDescriptor::Use> CachedDescriptor::Get() {
  Use use(this);
  if ((state_.fetch_add(1, std::memory_order_acquire) & kOpen) == 0) {
    QUIRE_RETURN_IF_ERROR(Reopen());
  }
  if (!was_used_.load(std::memory_order_relaxed)) was_used_.store(true, std::memory_order_relaxed);
  return use;
}

// The caller has counted itself in state_, so the descriptor stays open until it was used.
Status CachedDescriptor::Reopen() {
  const std::lock_guard<std::mutex> lock(opening_);
  if ((state_.load(std::memory_order_acquire) & kOpen) != 0) return Status();
  QUIRE_ASSIGN_OR_RETURN(FileDescriptor fd, OpenAgain());
  fd_ = fd.Release();
  state_.fetch_or(kOpen, std::memory_order_release);
  DescriptorCache::Get().Add(this);
  return Status();
}

Result<FileDescriptor> CachedDescriptor::OpenAgain() const {
  FileDescriptor fd = FileDescriptor::Open(path_, flags_);
  if (!fd.ok() && errno == ENOENT) return Gone(path_, "was removed");
  if (!fd.ok()) return ErrnoStatus(errno, "open", path_);
  QUIRE_ASSIGN_OR_RETURN(const FileIdentity identity, IdentityOf(fd.get(), path_));
  if (identity != identity_) return Gone(path_, "was replaced by another file");
  return fd;
}

// The cache contains only open files, and a new descriptor is not set before the file was taken
// out.
FileDescriptor CachedDescriptor::TryClose() {
  const int fd = fd_;
  uint32_t idle = kOpen;
  const bool closed = state_.compare_exchange_strong(idle, 0, std::memory_order_acq_rel);
  return FileDescriptor(closed ? fd : -1);
}

bool CloseIdleDescriptor() { return DescriptorCache::Get().CloseOne().ok(); }

}  // namespace quire::io
