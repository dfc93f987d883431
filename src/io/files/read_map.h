/// A mapped file whose read bytes do not change, so that small reads of cached pages need no system
/// call. It never fails: it says when to use pread. If another program shortens the file within a
/// page, the rest of that page reads as zeros; the checksums of blocks reveal it.
///
/// Layer      io (internal)
/// Source     docs/decisions/0004-tables.md
/// Threads    any number of readers
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/files/machine.h"

namespace quire::io {

class ReadMap {
 public:
  /// The largest read that is copied; above it the system call no longer counts, and pread reads
  /// ahead.
  static constexpr size_t kCopyBytesMax = size_t{64} << 10;
  /// A copy that took longer has waited for the device.
  static constexpr uint64_t kDeviceNs = 20'000;
  /// One of this many copies is timed, because reading the clock twice costs up to half of a copy.
  static constexpr uint64_t kCopiesPerTimed = 8;
  /// Reads that are left to pread after a copy that waited. Page faults bring in a page at a time,
  /// each a wait, where pread waits once.
  static constexpr int32_t kReadsLeftToPread = 256;

  /// Maps all of `fd`. Null where pread is as good or better: an empty file, a file system that is
  /// not local, a limit on address space, no room for another mapping.
  static std::unique_ptr<ReadMap> TryMap(int fd, Clock& clock);
  /// Whether pages of files on such a file system (statfs, f_type) are this machine's own.
  /// Elsewhere (NFS, Lustre, GPFS, BeeGFS, FUSE, what is not known) each fault may mean locks and
  /// messages.
  static bool SuitsFileSystem(uint32_t type);
  ReadMap(const ReadMap&) = delete;
  ReadMap& operator=(const ReadMap&) = delete;
  ~ReadMap();

  /// Copies [offset, offset + size) to `to`. False where the read is pread's: it is large, goes
  /// beyond the file, would meet the device, or met an error, which pread will name; or this thread
  /// had SIGBUS blocked when it first asked. (A thread that blocks it later is not noticed: asking
  /// takes a system call. Then an error of the device ends the process: docs/limitations.md.)
  bool TryCopy(uint64_t offset, size_t size, char* to);
  /// The same for a caller that has no other way to read: also if the read is large, or meets the
  /// device.
  bool Copy(uint64_t offset, size_t size, char* to);
  /// Returns the size that the file had when it was mapped.
  uint64_t size() const { return size_; }

 private:
  ReadMap(const char* data, uint64_t size, Clock& clock)
      : data_(data), size_(size), clock_(clock) {}

  const char* const data_;
  const uint64_t size_;
  Clock& clock_;
  std::atomic<int32_t> left_to_pread_ = 0;
};

}  // namespace quire::io
