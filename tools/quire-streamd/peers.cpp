#include "tools/quire-streamd/peers.h"

#include <algorithm>
#include <utility>

#include "io/files/machine.h"
#include "tools/quire-streamd/local_parts.h"

namespace quire::streamd {
namespace {

constexpr size_t kIdleMax = 16;
// [ns] A daemon that does not accept a connection in this time counts as absent.
constexpr uint64_t kConnectNs = 2'000'000'000;

Status DamagedVersion(const stream::Request& request, const StreamVersion& version,
                      const std::string& address) {
  return Status(Code::kCorruption,
                "the bytes of version " + std::to_string(version.version) + " of an object in " +
                    request.part.store + "/" + std::to_string(request.part.rank) +
                    " are damaged where the daemon at " + address + " has them, or on the way");
}

}  // namespace

Result<std::unique_ptr<Channel>> Peers::Take(const std::string& address, uint64_t deadline_ns,
                                             bool fresh, bool* kept) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& idle = idle_[address];
    if (fresh) idle.clear();  // they are as dead as the last one
    *kept = !idle.empty();
    if (*kept) {
      std::unique_ptr<Channel> channel = std::move(idle.back());
      idle.pop_back();
      return channel;
    }
  }
  const uint64_t until = std::min(deadline_ns, io::RealClock().NowNs() + kConnectNs);
  auto socket = io::Socket::ConnectTcp(address, until);
  if (!socket.ok()) return socket.status();
  return CallAsClient(std::move(*socket), token_, until);
}

void Peers::Keep(const std::string& address, std::unique_ptr<Channel> channel) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& idle = idle_[address];
  if (idle.size() < kIdleMax) idle.push_back(std::move(channel));
}

Result<Peers::Asked> Peers::Ask(const std::string& address, const stream::Request& request,
                                uint64_t deadline_ns) {
  const std::string encoded = stream::EncodeRequest(request);
  for (bool fresh = false;; fresh = true) {
    uint64_t id = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      id = next_id_++;
    }
    bool kept = false;
    auto channel = Take(address, deadline_ns, fresh, &kept);
    if (!channel.ok()) return channel.status().WithContext("the daemon at " + address);
    Status status = (*channel)->Send(TcpFrameKind::kRequest, id, encoded, deadline_ns);
    if (status.ok()) {
      auto answer = (*channel)->Receive(TcpFrameKind::kAnswer, id, deadline_ns);
      if (answer.ok()) return Asked{std::move(*channel), id, std::move(*answer)};
      status = answer.status();
    }
    // A stored connection may lead to a daemon that has been restarted since.
    if (!kept || status.code() != Code::kPeerFailed) {
      return status.WithContext("the daemon at " + address);
    }
  }
}

Result<std::string> Peers::Call(const std::string& address, const stream::Request& request,
                                uint64_t deadline_ns) {
  QUIRE_ASSIGN_OR_RETURN(Asked asked, Ask(address, request, deadline_ns));
  Keep(address, std::move(asked.channel));
  QUIRE_ASSIGN_OR_RETURN(const Slice body, stream::DecodeAnswer(asked.answer));
  return std::string(body);
}

Result<stream::FetchBody> Peers::Fetch(const std::string& address, const stream::Request& request,
                                       uint64_t deadline_ns, const Taker& taker) {
  QUIRE_ASSIGN_OR_RETURN(Asked asked, Ask(address, request, deadline_ns));
  const auto body = stream::DecodeAnswer(asked.answer);
  if (!body.ok()) {
    Keep(address, std::move(asked.channel));
    return body.status();
  }
  QUIRE_ASSIGN_OR_RETURN(const stream::FetchBody fetch, stream::DecodeFetch(*body));
  if (fetch.hash) {
    // If there is no room, the bytes are not read, and the connection is closed.
    QUIRE_ASSIGN_OR_RETURN(char* const to, taker.place(fetch.version));
    const auto hash = asked.channel->ReceiveBytes(to, fetch.version.bytes,
                                                  PaceOf(fetch.version.bytes), taker.came);
    if (!hash.ok()) return hash.status().WithContext("the daemon at " + address);
    if (*hash != *fetch.hash) return DamagedVersion(request, fetch.version, address);
  }
  Keep(address, std::move(asked.channel));
  return fetch;
}

}  // namespace quire::streamd
