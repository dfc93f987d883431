/// The daemon's log: lines in a file in its place, whose size is limited however long the daemon
/// runs. It always contains the newest lines.
///
/// Layer      tools
/// Threads    any
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "io/files/file_system.h"
#include "quire/status.h"

namespace quire::streamd {

class DaemonLog {
 public:
  /// [bytes] Limit on the file, and on the previous one, `path`.old.
  static constexpr uint64_t kBytesMax = 512 << 10;

  /// Begins an empty file; the log of an earlier daemon becomes the previous one.
  static Result<std::unique_ptr<DaemonLog>> Open(io::FileSystem& fs, const std::string& path,
                                                 uint64_t bytes_max = kBytesMax);
  /// Writes a line. A line that cannot be written is dropped.
  void Write(const std::string& text);

 private:
  DaemonLog(io::FileSystem& fs, std::string path, uint64_t bytes_max)
      : fs_(fs), path_(std::move(path)), bytes_max_(bytes_max) {}
  Status Begin();

  io::FileSystem& fs_;
  const std::string path_;
  const uint64_t bytes_max_;
  std::mutex mutex_;
  std::unique_ptr<io::File> file_;
  uint64_t size_ = 0;
};

}  // namespace quire::streamd
