/// Calls to other daemons, over connections that stay open for the next call.
///
/// Layer      tools
/// Threads    any
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "stream/remote/request.h"
#include "tools/quire-streamd/handshake.h"
#include "tools/quire-streamd/tcp_frame.h"

namespace quire::streamd {

class Peers {
 public:
  explicit Peers(Token token) : token_(std::move(token)) {}

  /// Sends a request to the daemon at `address` and returns the body of its answer.
  ///
  /// Errors   the daemon's error; kPeerFailed  It does not run, or has another token; kTimedOut.
  Result<std::string> Call(const std::string& address, const stream::Request& request,
                           uint64_t deadline_ns);
  /// Fetches a version. `taker` provides room for its bytes and is notified while they arrive.
  /// kCorruption: they differ from the bytes that were stored there.
  struct Taker {
    std::function<Result<char*>(const StreamVersion& version)> place;
    Channel::Came came;
  };
  Result<stream::FetchBody> Fetch(const std::string& address, const stream::Request& request,
                                  uint64_t deadline_ns, const Taker& taker);

 private:
  struct Asked {
    std::unique_ptr<Channel> channel;
    uint64_t id;
    std::string answer;
  };
  Result<std::unique_ptr<Channel>> Take(const std::string& address, uint64_t deadline_ns,
                                        bool fresh, bool* kept);
  void Keep(const std::string& address, std::unique_ptr<Channel> channel);
  Result<Asked> Ask(const std::string& address, const stream::Request& request,
                    uint64_t deadline_ns);

  const Token token_;
  std::mutex mutex_;
  uint64_t next_id_ = 1;
  std::map<std::string, std::vector<std::unique_ptr<Channel>>> idle_;
};

}  // namespace quire::streamd
