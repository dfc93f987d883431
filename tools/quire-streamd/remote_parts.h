/// Parts of stores on other nodes, for the readers of this node: requests are forwarded to the
/// daemon that has the part, and versions are fetched into this place's mirror.
///
/// Layer      tools
/// Source     NVStream, HPDC18, section 6.1
/// Threads    any
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "quire/stream.h"
#include "stream/store/mirror.h"
#include "stream/remote/request.h"
#include "stream/remote/request_queue.h"
#include "tools/quire-streamd/peers.h"

namespace quire::streamd {

struct RemoteOptions {
  /// Returns the address of a part: kNotFound.
  std::function<Result<std::string>(const stream::StorePart& part, uint64_t deadline_ns)> lookup;
  /// Opens the mirror of a part; below, a reader of it.
  std::function<Result<std::unique_ptr<stream::Mirror>>(const stream::StorePart& part)> open_mirror;
  std::function<Result<std::unique_ptr<StreamReader>>(const stream::StorePart& part)> open_mirrored;
};

class RemoteParts {
 public:
  RemoteParts(Peers& peers, RemoteOptions options) : peers_(peers), options_(std::move(options)) {}

  /// Returns the body of the answer to a reader's request. For kFetch: puts the version into the
  /// mirror, and calls `tell` while it arrives.
  Result<std::string> Serve(const stream::Request& request, uint64_t deadline_ns,
                            const stream::OnArrival& tell);

 private:
  struct Remote {
    std::timed_mutex mutex;  ///< of the mirror: waiting for it has a deadline
    std::unique_ptr<stream::Mirror> mirror;
    std::unique_ptr<StreamReader> mirrored;
    std::mutex address_mutex;
    std::string address;
  };
  using Call = std::function<Status(const std::string& address)>;

  std::shared_ptr<Remote> RemoteOf(const stream::StorePart& part);
  Status CallOwner(const stream::Request& request, Remote& remote, uint64_t deadline_ns,
                   const Call& call);
  Result<std::string> Fetch(const stream::Request& request, uint64_t deadline_ns,
                            const stream::OnArrival& tell);
  Result<stream::FetchBody> FetchInto(Remote& remote, const std::string& address,
                                      stream::Request request, uint64_t deadline_ns,
                                      const stream::OnArrival& tell);
  Status OpenMirror(const stream::StorePart& part, Remote& remote);

  Peers& peers_;
  const RemoteOptions options_;
  std::mutex mutex_;
  std::map<stream::StorePart, std::shared_ptr<Remote>> remotes_;
};

}  // namespace quire::streamd
