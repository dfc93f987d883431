/// A file descriptor: the only owner of what open, socket, pipe and their like return.
///
/// Layer      io (internal)
/// Threads    as one object
#pragma once

#include <string>
#include <utility>

namespace quire::io {

/// A file descriptor, closed by destruction. It is never 0, 1 or 2: if a program was started with
/// its standard streams closed, the kernel hands these numbers to whatever is opened next, and the
/// program's own output would overwrite Quire's file. Construction moves such a descriptor to a
/// higher number. (Until it has moved, output of another thread may still reach the file.)
class FileDescriptor {
 public:
  /// Takes over `fd`, which is close-on-exec. If it is negative, the call that should have created
  /// it failed, and errno contains the reason. Not ok() with errno EMFILE: no higher number was
  /// left; `fd` is closed.
  explicit FileDescriptor(int fd) : fd_(fd < 0 || fd >= kFirst ? fd : Moved(fd)) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();
  /// Calls open(2). Repeats the call if a signal interrupts it; if no descriptor is free, closes
  /// idle files (io/files/descriptor_cache.h) and tries again. If not ok(), errno contains the
  /// reason.
  static FileDescriptor Open(const std::string& path, int flags, unsigned permissions = 0);
  /// Returns a second descriptor of the same open file; if not ok(), errno contains the reason.
  static FileDescriptor Duplicate(int fd);
  /// Returns the two ends of a pipe, the end for reading first; if both are not ok(), errno
  /// contains the reason.
  static std::pair<FileDescriptor, FileDescriptor> Pipe();
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  /// Leaves the descriptor open for a new owner.
  int Release() { return std::exchange(fd_, -1); }

 private:
  static constexpr int kFirst = 3;
  static int Moved(int fd);

  int fd_;
};

/// For the beginning of a program of our own: opens /dev/null as each of 0, 1 and 2 that is closed,
/// so that the program's output reaches no file that it opens. Printing still fails.
void OpenStandardStreams();

}  // namespace quire::io
