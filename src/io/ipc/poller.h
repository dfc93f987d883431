/// Sleeps until one of many descriptors is ready, or another thread calls. Also turns the signals
/// that ask a program to end into such a descriptor.
///
/// Layer      io
/// Threads    Wait: one; all else: any
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "io/files/posix_file.h"
#include "quire/status.h"

namespace quire::io {

class Poller {
 public:
  static Result<std::unique_ptr<Poller>> New();
  /// Reports `token` when `fd` can be read, its peer has gone, or (`writable`) it can be written
  /// to. `once`: it stays silent after that until Rearm.
  Status Add(int fd, uint64_t token, bool once = false);
  Status Rearm(int fd, uint64_t token, bool writable = false);
  /// Stops reporting `fd`. Must be called before `fd` is closed.
  void Remove(int fd);
  /// Returns the tokens of the ready descriptors; none if `timeout_ms` passed or Wake was called.
  Result<std::vector<uint64_t>> Wait(uint64_t timeout_ms);
  /// Ends the current Wait, or the next one.
  void Wake();

 private:
  Poller(FileDescriptor epoll, FileDescriptor wake)
      : epoll_(std::move(epoll)), wake_(std::move(wake)) {}
  FileDescriptor epoll_;
  FileDescriptor wake_;
};

/// Makes SIGTERM, SIGINT and SIGPIPE no longer end the program, also in threads that are started
/// later. Returns a descriptor that becomes readable when SIGTERM or SIGINT arrives.
Result<FileDescriptor> StopSignals();

}  // namespace quire::io
