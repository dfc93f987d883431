/// Where a benchmark writes, and what it cost the machine: directories that vanish, space on the
/// device, bytes written.
///
/// Layer      bench
/// Threads    one thread at a time
#pragma once

#include <cstdint>
#include <string>

#include "quire/status.h"

namespace quire::bench {

/// A new directory under `parent`, removed with all it holds at the end.
class TemporaryDirectory {
 public:
  /// Errors  kIo where `parent` cannot be written to.
  static Result<TemporaryDirectory> Make(const std::string& parent);
  TemporaryDirectory(TemporaryDirectory&& other) noexcept;
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept;
  ~TemporaryDirectory();

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// What this process handed to files since it began.
struct WrittenBytes {
  uint64_t calls = 0;  ///< by write calls, to any file
  uint64_t device =
      0;  ///< pages made dirty on devices, less those dropped before they were written (0 on tmpfs)
};
/// Errors  kIo where the kernel does not tell (/proc/self/io).
Result<WrittenBytes> ReadWrittenBytes();

/// Blocks that the files under `directory` hold, as du counts.
uint64_t DiskUsageBytes(const std::string& directory);

/// Asks the file system of `directory` to write everything out, so that the next measurement does
/// not pay for the last.
Status SyncFileSystem(const std::string& directory);

/// "ext4", "tmpfs", ...: the file system of `directory`.
std::string FileSystemName(const std::string& directory);

/// Seconds of processor time that this process has used (user and system).
double ProcessCpuSeconds();

/// Sleeps until this process has used next to no processor time for a while: its background work is
/// done. Errors  kTimedOut after `timeout_s` seconds.
Status WaitUntilQuiet(double timeout_s);

}  // namespace quire::bench
