/// A mapped file whose read bytes do not change, so that small reads of cached pages need no system
/// call. It never fails: it returns false if the caller must use pread. If another program shortens
/// the file within a page, the rest of that page reads as zeros; the checksums of blocks reveal it.
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
  /// [ns] A copy that took longer has waited for the device.
  static constexpr uint64_t kDeviceNs = 20'000;
  /// One of this many copies is timed, because reading the clock twice costs up to half of a copy.
  static constexpr uint64_t kCopiesPerTimed = 8;
  /// The number of reads that use pread after a copy that waited. Page faults read one page at a
  /// time and wait for each, but pread waits once.
  static constexpr int32_t kReadsLeftToPread = 256;

  /// Maps all of `fd`. Returns null if pread is as good or better: an empty file, a file system
  /// that is not local, a limit on address space, no room for another mapping.
  static std::unique_ptr<ReadMap> TryMap(int fd, Clock& clock);
  /// Returns whether pages of files on this type of file system (statfs, f_type) belong to this
  /// machine alone. On others (NFS, Lustre, GPFS, BeeGFS, FUSE, unknown ones) each fault may need
  /// locks and messages.
  static bool SuitsFileSystem(uint32_t type);
  ReadMap(const ReadMap&) = delete;
  ReadMap& operator=(const ReadMap&) = delete;
  ~ReadMap();

  /// Copies [offset, offset + size) to `to`. Returns false if the caller must use pread: the read
  /// is large, goes beyond the file, would wait for the device, or met an error, which pread will
  /// report; or this thread had SIGBUS blocked at its first call. (A thread that blocks it later is
  /// not detected, because that would take a system call. Then an error of the device ends the
  /// process: docs/limitations.md.)
  bool TryCopy(uint64_t offset, size_t size, char* to);
  /// Does the same for a caller that has no other way to read: also if the read is large, or waits
  /// for the device.
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
