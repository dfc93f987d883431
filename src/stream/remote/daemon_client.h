/// A reader's connection to the daemon of its node.
///
/// Layer      stream
/// Source     NVStream, HPDC18, section 6.1
/// Threads    any
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "stream/remote/request.h"
#include "stream/remote/request_queue.h"

namespace quire::stream {

/// The socket of the daemon's local connections, in its place.
constexpr char kDaemonSocket[] = ".daemon.sock";
/// The daemon's lock file, in its place.
constexpr char kDaemonLock[] = ".daemon.lock";
/// The daemon's program, and its environment variables (docs/streamd.md).
constexpr char kDaemonProgram[] = "quire-streamd";
constexpr char kDaemonVariable[] = "QUIRE_STREAMD";
constexpr char kMetadataVariable[] = "QUIRE_STREAMD_METADATA";
constexpr char kTokenVariable[] = "QUIRE_STREAMD_TOKEN";

class DaemonClient {
 public:
  /// Resolves the paths in the environment variables now, because the working directory may have
  /// changed when a daemon is started.
  explicit DaemonClient(std::string place);
  ~DaemonClient();

  /// Sends a request and returns the body of the answer. Connects if there is no connection. Starts
  /// a daemon if none runs and the environment allows it. `on_arrival`: QueueClient::Call.
  ///
  /// Errors   kNotFound    The requested object does not exist, or there never was a daemon.
  ///          kPeerFailed  The daemon, or the daemon that it asks, has ended: the next call
  ///          connects again.
  ///          kTimedOut
  ///          kBusy        The daemon has its maximum number of readers.
  Result<std::string> Call(const Request& request, uint64_t deadline_ns,
                           const OnArrival& on_arrival = {});

 private:
  struct Link;
  Result<std::shared_ptr<Link>> TheLink(uint64_t deadline_ns);
  Result<std::shared_ptr<Link>> ConnectOrStart(uint64_t deadline_ns) const;
  Result<std::shared_ptr<Link>> Connect(uint64_t deadline_ns) const;
  Result<std::shared_ptr<Link>> ConnectToStarted(uint64_t deadline_ns) const;
  Status StartDaemon(uint64_t deadline_ns) const;

  const std::string place_;
  const std::string program_;  // the path in the variable; empty: it is not set
  const std::string token_;    // the same
  std::mutex mutex_;           // no thread waits for the daemon under it
  std::condition_variable connected_;
  bool connecting_ = false;  // a thread is connecting, without the lock
  std::shared_ptr<Link> link_;
  bool had_link_ = false;
};

}  // namespace quire::stream
