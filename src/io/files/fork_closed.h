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

/// A guard: while one exists, no thread of this process can fork (fork waits for it). Used to open
/// and lock a file, so that no child inherits a descriptor that is not registered here yet. Hold it
/// only briefly.
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
  /// Must be created before other programs can see the descriptor's lock; `no_fork` must exist
  /// since before the descriptor was opened.
  ForkClosed(FileDescriptor fd, const NoFork& no_fork);
  ~ForkClosed();
  ForkClosed(const ForkClosed&) = delete;
  ForkClosed& operator=(const ForkClosed&) = delete;
  /// Returns the descriptor; negative in a forked child of the process that created it.
  int get() const { return fd_.get(); }

 private:
  friend struct ForkClosedList;
  FileDescriptor fd_;
  ForkClosed* next_ = nullptr;
  ForkClosed* previous_ = nullptr;
};

}  // namespace quire::io
