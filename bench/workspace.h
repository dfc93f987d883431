/// The files of a benchmark and their cost: temporary directories, space on the device, bytes
/// written.
///
/// Layer      bench
/// Threads    one thread at a time
#pragma once

#include <cstdint>
#include <string>

#include "quire/status.h"

namespace quire::bench {

/// A new directory under `parent`, removed with its content at the end.
class TemporaryDirectory {
 public:
  /// Creates the directory. Errors  kIo if `parent` cannot be written to.
  static Result<TemporaryDirectory> Make(const std::string& parent);
  TemporaryDirectory(TemporaryDirectory&& other) noexcept;
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept;
  ~TemporaryDirectory();

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// The bytes that this process has written to files since it began.
struct WrittenBytes {
  uint64_t calls = 0;  ///< by write calls, to any file
  uint64_t device =
      0;  ///< pages made dirty on devices, less those dropped before they were written (0 on tmpfs)
};
/// Reads them. Errors  kIo if the kernel does not provide them (/proc/self/io).
Result<WrittenBytes> ReadWrittenBytes();

/// Returns the bytes of the blocks of the files under `directory`, as du counts.
uint64_t DiskUsageBytes(const std::string& directory);

/// Asks the file system of `directory` to write everything to the device, so that the next
/// measurement does not include work of the last.
Status SyncFileSystem(const std::string& directory);

/// Returns the file system of `directory`: "ext4", "tmpfs", ...
std::string FileSystemName(const std::string& directory);

/// Returns the seconds of processor time that this process has used (user and system).
double ProcessCpuSeconds();

/// Sleeps until this process has used almost no processor time for a while: then its background
/// work is done. Errors  kTimedOut after `timeout_s` seconds.
Status WaitUntilQuiet(double timeout_s);

}  // namespace quire::bench
