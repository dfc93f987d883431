/// Descriptors that no forked child keeps. A child inherits its parent's descriptors, and a lock of
/// an open file description lasts until the last of its descriptors is closed: a child that lives
/// longer than its parent would hold the parent's locks.
///
/// Layer      io (internal)
/// Threads    any
#pragma once

#include <mutex>

#include "io/files/descriptor.h"

namespace quire::io {

/// While one exists no thread of this process can fork (fork waits for it): for opening a file and
/// locking it, so that no child inherits a descriptor that is not known here yet. Not for long.
class NoFork {
 public:
  NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;

 private:
  std::lock_guard<std::mutex> lock_;
};

/// Owns a descriptor that is closed in every forked child before fork returns there.
class ForkClosed {
 public:
  /// Created before other programs can see the descriptor's lock: `no_fork` began before it was
  /// opened.
  ForkClosed(FileDescriptor fd, const NoFork& no_fork);
  ~ForkClosed();
  ForkClosed(const ForkClosed&) = delete;
  ForkClosed& operator=(const ForkClosed&) = delete;
  /// Negative in a forked child of the process that made it.
  int get() const { return fd_.get(); }

 private:
  friend struct ForkClosedList;
  FileDescriptor fd_;
  ForkClosed* next_ = nullptr;
  ForkClosed* previous_ = nullptr;
};

}  // namespace quire::io
