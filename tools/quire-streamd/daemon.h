/// The daemon: serves this place's parts to other daemons, fetches their parts for readers here,
/// registers parts with the metadata service (or is it), and tends parts whose writers have ended.
///
/// Layer      tools
/// Source     NVStream, HPDC18, section 6; docs/streamd.md
/// Threads    Run: one; all else: any
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "quire/stream.h"
#include "tools/quire-streamd/connection_listener.h"
#include "tools/quire-streamd/local_parts.h"
#include "tools/quire-streamd/part_registry.h"
#include "tools/quire-streamd/peers.h"
#include "tools/quire-streamd/rare_log.h"
#include "tools/quire-streamd/remote_parts.h"
#include "tools/quire-streamd/tending_schedule.h"
#include "tools/quire-streamd/waits.h"
#include "tools/quire-streamd/workers.h"

namespace quire::streamd {

struct DaemonOptions {
  std::string place;
  std::string listen = "127.0.0.1:0";
  std::string advertise;       // the host by which other daemons reach this one; empty: that at
                               // which it listens
  std::string metadata;        // the service's address; empty: none
  bool metadata_here = false;  ///< this daemon is the service
  uint64_t mirror_bytes = 256ull << 20;
  uint64_t tend_ms = 10'000;
  int threads_max = 256;  ///< for readers; as many for other daemons, and for waiting readers and
                          ///< waiting daemons each
  ListenerLimits limits;
};

/// The stream functions that the daemon uses; a test provides others.
struct Streams {
  OpenPart open_part;
  std::function<std::vector<stream::StorePart>()> parts;
  /// Returns the registrations of `parts` with the metadata service. One thread at a time calls it.
  std::function<std::vector<stream::RegisteredPart>(const std::vector<stream::StorePart>& parts)>
      registrations;
  RemoteOptions remote;  ///< without `lookup`
  /// Returns whether a program writes a part; below, the work for a part without a writer.
  std::function<bool(const stream::StorePart& part)> written;
  std::function<void(const stream::StorePart& part)> tend;
};
/// Returns the functions for a place.
Streams StreamsOf(io::FileSystem& fs, const std::string& place, uint64_t mirror_bytes);

class Daemon {
 public:
  /// Begins to listen. The caller holds the place's lock. kInvalidArgument: an address is invalid,
  /// or other daemons could not use it.
  static Result<std::unique_ptr<Daemon>> Open(const DaemonOptions& options, const Token& token,
                                              Streams streams);
  ~Daemon();
  /// Serves until Stop or a signal.
  Status Run(const io::FileDescriptor* signals = nullptr);
  void Stop() { listener_->Stop(); }
  const std::string& address() const { return listener_->address(); }
  ConnectionListener& listener() { return *listener_; }
  /// Deregisters at the metadata service, and waits at most `timeout_ms` for running work. Returns
  /// false if some still runs.
  bool Finish(uint64_t timeout_ms);
  /// Answers the next request of another daemon. After a failure its connection is to be closed.
  Status ServePeer(Channel& channel);

 private:
  /// A request of another daemon that is answered later, when there is a result.
  struct OpenWait {
    stream::Request request;
    uint64_t id = 0;
  };
  Daemon(const DaemonOptions& options, const Token& token, Streams streams);

  void OnRequest(uint64_t id, const std::shared_ptr<Channel>& channel);
  Status Serve(Channel& channel, std::optional<OpenWait>* wait);
  void Await(const OpenWait& wait, uint64_t id, const std::shared_ptr<Channel>& channel);
  void EndRequest(uint64_t id, const Status& status);
  void OnBell(const std::shared_ptr<stream::QueueServer>& queue);
  void OnTick();
  Status ServeMetadata(const stream::Request& request, uint64_t id, Channel& channel);
  void ServeReader(const std::shared_ptr<stream::QueueServer>& queue,
                   const stream::QueueServer::Asked& asked);
  Result<uint64_t> AskOwner(const Waits::Question& question, uint64_t timeout_ms,
                            uint64_t deadline_ns);
  void Tick();
  void TendIfDue(const std::vector<stream::StorePart>& parts);
  void Tend(const std::vector<stream::StorePart>& due);
  Status Register(const std::vector<stream::RegisteredPart>& parts, uint64_t ttl_ms);
  Status RegisterSome(stream::Request request, uint64_t deadline_ns);
  Result<std::string> Lookup(const stream::StorePart& part, uint64_t deadline_ns);
  std::string AdvertisedAddress() const;

  const DaemonOptions options_;
  const Streams streams_;
  std::unique_ptr<ConnectionListener> listener_;
  Peers peers_;
  LocalParts local_;
  RemoteParts remote_;
  PartRegistry registry_;
  RareLog closed_{"closed connections"};
  std::atomic<bool> ticking_{false};
  std::atomic<bool> tends_{false};
  std::mutex tick_mutex_;  ///< guards the members below
  std::vector<stream::RegisteredPart> registered_;
  uint64_t tended_ns_ = 0;
  TendingSchedule schedule_;
  bool told_failure_ = false;
  /// A thread that serves a reader may wait for another daemon; a thread that serves a daemon waits
  /// for none. So no two daemons wait for each other for lack of threads. One thread ticks and one
  /// tends: neither waits for the serving threads, nor for the other. The members below end first.
  Workers for_readers_;
  Workers for_peers_;
  Workers upkeep_{2};
  /// Requests for parts elsewhere, by readers here; and for parts here, by other daemons.
  Waits reader_waits_;
  Waits peer_waits_;
};

}  // namespace quire::streamd
