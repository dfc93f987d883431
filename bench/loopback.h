/// Bytes over TCP within this machine, as fast as two threads make it: what fetching from another
/// node is compared with. And programs that run meanwhile.
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

/// A thread that sends as many of its bytes as it is asked for, over one connection.
class TcpSource {
 public:
  /// `bytes` outlive it. Errors  kIo.
  explicit TcpSource(Slice bytes) : bytes_(bytes) {}
  ~TcpSource();
  /// Listens on loopback, and connects to itself.
  Status Open();
  /// Asks for the first `size` bytes, and receives them at `to`.
  Status Fetch(char* to, uint64_t size);

 private:
  void Serve();
  const Slice bytes_;
  int server_ = -1;
  int client_ = -1;
  std::thread thread_;
};

/// A program that is ended (SIGTERM, then waited for) at the latest with this object.
class Program {
 public:
  /// Errors  kNotFound where it cannot be started.
  static Result<Program> Start(const std::vector<std::string>& arguments);
  Program(Program&& other) noexcept;
  Program& operator=(Program&& other) noexcept;
  ~Program();

 private:
  explicit Program(pid_t id) : id_(id) {}
  pid_t id_;
};

}  // namespace quire::bench
