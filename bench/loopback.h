/// Bytes over TCP within this machine, as fast as two threads can send them: the comparison for
/// fetching from another node. Also programs that run meanwhile.
///
/// Layer      bench
/// Threads    one thread at a time
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "quire/slice.h"
#include "quire/status.h"

namespace quire::bench {

/// A thread that sends the requested number of its bytes over one connection.
class TcpSource {
 public:
  /// `bytes` must outlive this object. Errors  kIo.
  explicit TcpSource(Slice bytes) : bytes_(bytes) {}
  ~TcpSource();
  /// Listens on loopback, and connects to itself.
  Status Open();
  /// Requests the first `size` bytes, and receives them at `to`.
  Status Fetch(char* to, uint64_t size);

 private:
  void Serve();
  const Slice bytes_;
  int server_ = -1;
  int client_ = -1;
  std::thread thread_;
};

/// A running program. Destroying this object ends it (SIGTERM) and waits for it.
class Program {
 public:
  /// Starts a program. Errors  kNotFound if it cannot be started.
  static Result<Program> Start(const std::vector<std::string>& arguments);
  Program(Program&& other) noexcept;
  Program& operator=(Program&& other) noexcept;
  ~Program();

 private:
  explicit Program(pid_t id) : id_(id) {}
  pid_t id_;
};

}  // namespace quire::bench
