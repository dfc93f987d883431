/// Calls to other daemons, over connections that are kept for the next call.
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

  /// The body of the answer of the daemon at `address`.
  ///
  /// Errors   what it answers; kPeerFailed  It is not there, or has another token; kTimedOut.
  Result<std::string> Call(const std::string& address, const stream::Request& request,
                           uint64_t deadline_ns);
  /// Asks for a version. While its bytes arrive, `taker` provides room for them and is notified.
  /// kCorruption: they differ from what was stored there.
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
