/// The daemon's incoming connections: other daemons over TCP, readers of this node over a local
/// socket. One thread listens to all of them. A peer that has not shown the token has a small
/// buffer and a few seconds. A peer that has shown it, or belongs to the same user, is passed on as
/// soon as it sends a request.
///
/// Layer      tools
/// Threads    Run: one, which makes the calls of ListenerEvents; Resume, Stop: any
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/ipc/poller.h"
#include "io/ipc/socket.h"
#include "stream/remote/request_queue.h"
#include "tools/quire-streamd/handshake.h"
#include "tools/quire-streamd/rare_log.h"
#include "tools/quire-streamd/tcp_frame.h"

namespace quire::streamd {

struct ListenerLimits {
  size_t strangers_max = 256;  ///< if exceeded, the oldest is closed
  size_t peers_max = 1024;     // if exceeded, the one that has been idle longest is closed
  size_t readers_max = 1024;
  uint64_t handshake_ms = 5000;
  uint64_t tick_ms = 2000;
};

/// Callbacks of the listener. None may wait.
struct ListenerEvents {
  /// Called when a request begins to arrive. The callee must call Resume later, from any thread.
  std::function<void(uint64_t id, std::shared_ptr<Channel>)> on_request;
  /// Called when a reader has sent a request.
  std::function<void(std::shared_ptr<stream::QueueServer>)> on_bell;
  std::function<void()> on_tick;
};

class ConnectionListener {
 public:
  /// Listens at `address`, and at the daemon's socket in `place`.
  static Result<std::unique_ptr<ConnectionListener>> Open(const std::string& address,
                                                          const std::string& place,
                                                          const Token& token,
                                                          const ListenerLimits& limits);
  /// Returns the address at which it listens, with the actual port.
  const std::string& address() const { return address_; }
  /// Runs until Stop, or until SIGTERM or SIGINT if `signals` reports them.
  Status Run(const ListenerEvents& events, const io::FileDescriptor* signals = nullptr);
  void Stop();
  /// Continues a connection whose request is answered (`keep`), or closes it.
  void Resume(uint64_t id, bool keep);

  struct Counts {
    uint64_t strangers = 0;
    uint64_t peers = 0;
    uint64_t readers = 0;
  };
  Counts counts();

 private:
  /// Over TCP. `handshake` until both have shown that they have the token, then `channel`.
  struct Peer {
    io::Socket socket;
    std::unique_ptr<ServerHandshake> handshake;
    std::string frame;
    uint64_t deadline_ns = 0;
    std::shared_ptr<Channel> channel;
    int fd = -1;
    bool busy = false;          // its request is being served
    uint64_t idle_from_ns = 0;  ///< else
  };
  struct Reader {
    io::Socket socket;
    std::shared_ptr<stream::QueueServer> queue;
  };
  struct Resumed {
    uint64_t id;
    bool keep;
  };

  ConnectionListener(const Token& token, const ListenerLimits& limits)
      : token_(token), limits_(limits) {}
  uint64_t WaitMs(uint64_t now) const;
  void OnEvent(uint64_t id);
  void AcceptPeers();
  void AcceptReaders();
  void PauseListening();
  void AddStranger(io::Socket socket);
  Status AddReader(io::Socket socket);
  void OnPeer(uint64_t id, Peer& peer);
  Status ShakeHands(uint64_t id, Peer& peer);
  void OnReader(uint64_t id, Reader& reader);
  void DropPeer(uint64_t id);
  void DropOldestStranger();
  Status MakeRoomForPeer();
  void DropLateStrangers(uint64_t now);
  void TakeResumed();
  void CountAll();

  const Token token_;
  const ListenerLimits limits_;
  std::string address_;
  io::Socket tcp_socket_;
  io::Socket local_socket_;
  std::unique_ptr<io::Poller> poller_;
  const ListenerEvents* events_ = nullptr;
  uint64_t next_id_;
  std::map<uint64_t, Peer> peers_;
  std::list<uint64_t> strangers_;  ///< the first came first
  std::map<uint64_t, Reader> readers_;
  RareLog refused_peers_{"refused connections"};
  RareLog refused_readers_{"readers that were sent away"};
  uint64_t listen_again_ns_ = 0;  ///< 0: it listens
  std::mutex mutex_;
  std::vector<Resumed> resumed_;
  Counts counts_;
  bool stop_ = false;
};

}  // namespace quire::streamd
