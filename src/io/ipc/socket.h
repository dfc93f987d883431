/// Connections over TCP and between processes of this machine. No call waits beyond its deadline
/// (except for the system's name resolver). Also finds the process at the other end of a local
/// connection, and passes memory over it.
///
/// Layer      io
/// Threads    a Socket belongs to one thread at a time; PeerGone: any
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "io/files/posix_file.h"
#include "quire/slice.h"
#include "quire/status.h"

struct addrinfo;

namespace quire::io {

/// Deadlines are times of RealClock() [ns]. An address is "host:port", of IPv6 "[host]:port"; a
/// host may be a name. A peer that closes or resets its end is kPeerFailed.
class Socket {
 public:
  /// Listens at `address`. Port 0: any free port (LocalAddress returns it).
  ///
  /// Errors  kInvalidArgument: the address is invalid, or its name is unknown. kPeerFailed: the
  ///         name server does not answer. kBusy: another process listens there.
  static Result<Socket> ListenTcp(const std::string& address);
  /// Errors  as of ListenTcp; kPeerFailed, kTimedOut: no process accepts the connection
  static Result<Socket> ConnectTcp(const std::string& address, uint64_t deadline_ns);
  /// Listens at `directory`/`name`, 0600; removes a socket that an earlier process left there. The
  /// path may be longer than a socket address allows.
  static Result<Socket> ListenLocal(const std::string& directory, const std::string& name);
  /// kNotFound: no process listens there.
  static Result<Socket> ConnectLocal(const std::string& directory, const std::string& name);

  /// Returns the next connection; kNotFound: there is none at the moment. kOutOfMemory: no
  /// descriptors are left.
  Result<Socket> Accept();
  /// Reads up to `size` bytes that have arrived; returns 0 if there are none at the moment.
  Result<size_t> ReadSome(char* to, size_t size);
  /// Writes as much of `bytes` as possible; returns 0 if nothing can be written at the moment.
  Result<size_t> WriteSome(Slice bytes);
  /// Reads `size` bytes, or returns kTimedOut. During large reads the waiting thread is not woken
  /// for each packet.
  Status ReadAll(char* to, size_t size, uint64_t deadline_ns);
  Status WriteAll(Slice head, Slice body, uint64_t deadline_ns);
  /// Returns whether the peer has closed its end, or died.
  bool PeerGone() const;

  Result<std::string> LocalAddress() const;
  /// Returns the host at the other end, without its port.
  Result<std::string> PeerHost() const;
  /// Returns the user as which the process at the other end of a local connection ran when it
  /// connected.
  Result<uint32_t> PeerUser() const;
  /// Sends SIGTERM to the process that listens at the other end of a local connection: the kernel
  /// identifies it, so that a process that has reused its number is not hit.
  ///
  /// Errors  kInvalidArgument: it belongs to another user, or runs in a container whose processes
  ///         are not visible here. kNotFound: it has ended.
  Status AskPeerToEnd() const;
  /// Sends a copy of a descriptor to the process at the other end of a local connection.
  Status SendDescriptor(int fd);
  /// Sends, instead of a descriptor, that there is no room for one more.
  Status SendRefusal();
  /// Receives a descriptor. kBusy: the peer refused. kPeerFailed: it sent none.
  Result<FileDescriptor> ReceiveDescriptor(uint64_t deadline_ns);

  int fd() const { return fd_.get(); }
  bool ok() const { return fd_.ok(); }
  Socket() : fd_(-1) {}
  explicit Socket(FileDescriptor fd) : fd_(std::move(fd)) {}

 private:
  Status Connect(const addrinfo& to, uint64_t deadline_ns);
  Status Await(short events, uint64_t deadline_ns) const;
  void WakeAt(size_t bytes);
  FileDescriptor fd_;
  int wake_at_ = 1;  // SO_RCVLOWAT
};

/// Returns the user as which this process runs.
uint32_t UserId();
/// Splits an address into "host" and "port"; kInvalidArgument.
Result<std::pair<std::string, std::string>> SplitAddress(const std::string& address);

}  // namespace quire::io
