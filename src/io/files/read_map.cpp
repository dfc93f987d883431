#include "io/files/read_map.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "io/memory/guarded_copy.h"

namespace quire::io {
namespace {

bool IsSuited(int fd) {
  struct statfs info;
  return ::fstatfs(fd, &info) == 0 && ReadMap::SuitsFileSystem(static_cast<uint32_t>(info.f_type));
}

// Chooses reads by their place instead of counting them: threads share nothing, and in any order of
// reads some are timed.
bool IsTimed(uint64_t offset) {
  constexpr uint64_t kSpread = 0x9E3779B97F4A7C15;
  return ((offset * kSpread) >> 32) % ReadMap::kCopiesPerTimed == 0;
}

// Under a limit on address space, mapped tables would take it away from the program's memory.
bool AddressSpaceIsUnlimited() {
  struct rlimit limit;
  return ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

}  // namespace

bool ReadMap::SuitsFileSystem(uint32_t type) {
  switch (type) {
    case 0x0000EF53:  // ext2, ext3, ext4
    case 0x58465342:  // xfs
    case 0x9123683E:  // btrfs
    case 0xF2F52010:  // f2fs
    case 0xCA451A4E:  // bcachefs
    case 0x2FC12FC1:  // zfs
    case 0x794C7630:  // overlayfs
    case 0x01021994:  // tmpfs
    case 0x858458F6:  // ramfs
      return true;
    default:
      return false;
  }
}

std::unique_ptr<ReadMap> ReadMap::TryMap(int fd, Clock& clock) {
  struct stat info;
  if (::fstat(fd, &info) != 0 || info.st_size <= 0) return nullptr;
  if (!IsSuited(fd) || !AddressSpaceIsUnlimited() || !PrepareGuardedCopies()) return nullptr;
  const auto size = static_cast<uint64_t>(info.st_size);
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return nullptr;
  // Otherwise each fault would read 128 KiB around it from the device. Errors are ignored.
  ::madvise(data, size, MADV_RANDOM);
  return std::unique_ptr<ReadMap>(new ReadMap(static_cast<const char*>(data), size, clock));
}

ReadMap::~ReadMap() {
  ::munmap(const_cast<char*>(data_), size_);
}

bool ReadMap::Copy(uint64_t offset, size_t size, char* to) {
  if (offset > size_ || size > size_ - offset || !ThreadMayFault()) return false;
  return GuardedCopy(data_ + offset, size, to);
}

bool ReadMap::TryCopy(uint64_t offset, size_t size, char* to) {
  if (size > kCopyBytesMax || offset > size_ || size > size_ - offset) return false;
  if (!ThreadMayFault()) return false;
  if (left_to_pread_.load(std::memory_order_relaxed) > 0) {
    left_to_pread_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  const bool timed = IsTimed(offset);
  const uint64_t start_ns = timed ? clock_.NowNs() : 0;
  const bool copied = GuardedCopy(data_ + offset, size, to);
  const bool waited = timed && clock_.NowNs() - start_ns > kDeviceNs;
  if (waited || !copied) left_to_pread_.store(kReadsLeftToPread, std::memory_order_relaxed);
  return copied;
}

}  // namespace quire::io
