#include "tools/quire-streamd/connection_listener.h"

#include <algorithm>
#include <utility>

#include "base/text/units.h"
#include "io/files/machine.h"
#include "stream/remote/daemon_client.h"

namespace quire::streamd {
namespace {

constexpr uint64_t kListener = 1;
constexpr uint64_t kLocalListener = 2;
constexpr uint64_t kSignals = 3;
constexpr uint64_t kFirstId = 16;
// The number of connections that are accepted in a row before other work.
constexpr int kAcceptsMax = 64;
constexpr uint64_t kPauseNs = 1000 * base::kNsPerMs;

}  // namespace

Result<std::unique_ptr<ConnectionListener>> ConnectionListener::Open(const std::string& address,
                                                                     const std::string& place,
                                                                     const Token& token,
                                                                     const ListenerLimits& limits) {
  std::unique_ptr<ConnectionListener> listener(new ConnectionListener(token, limits));
  listener->next_id_ = kFirstId;
  QUIRE_ASSIGN_OR_RETURN(listener->poller_, io::Poller::New());
  QUIRE_ASSIGN_OR_RETURN(listener->tcp_socket_, io::Socket::ListenTcp(address));
  QUIRE_ASSIGN_OR_RETURN(listener->address_, listener->tcp_socket_.LocalAddress());
  QUIRE_ASSIGN_OR_RETURN(listener->local_socket_,
                         io::Socket::ListenLocal(place, stream::kDaemonSocket));
  QUIRE_RETURN_IF_ERROR(listener->poller_->Add(listener->tcp_socket_.fd(), kListener));
  QUIRE_RETURN_IF_ERROR(listener->poller_->Add(listener->local_socket_.fd(), kLocalListener));
  return listener;
}

Status ConnectionListener::Run(const ListenerEvents& events, const io::FileDescriptor* signals) {
  events_ = &events;
  if (signals != nullptr) QUIRE_RETURN_IF_ERROR(poller_->Add(signals->get(), kSignals));
  uint64_t tick_ns = 0;
  for (;;) {
    const uint64_t now = io::RealClock().NowNs();
    if (now >= tick_ns) {
      events.on_tick();
      tick_ns = now + limits_.tick_ms * base::kNsPerMs;
    }
    DropLateStrangers(now);
    refused_peers_.Tell(now);
    refused_readers_.Tell(now);
    const uint64_t tick_ms = (tick_ns - now) / base::kNsPerMs + 1;
    QUIRE_ASSIGN_OR_RETURN(const auto ids, poller_->Wait(std::min(tick_ms, WaitMs(now))));
    TakeResumed();
    for (const uint64_t id : ids) {
      if (id == kSignals) return Status();
      OnEvent(id);
    }
    CountAll();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stop_) return Status();
  }
}

void ConnectionListener::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  poller_->Wake();
}

void ConnectionListener::Resume(uint64_t id, bool keep) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    resumed_.push_back({id, keep});
  }
  poller_->Wake();
}

ConnectionListener::Counts ConnectionListener::counts() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

void ConnectionListener::CountAll() {
  const std::lock_guard<std::mutex> lock(mutex_);
  counts_ = {strangers_.size(), peers_.size() - strangers_.size(), readers_.size()};
}

uint64_t ConnectionListener::WaitMs(uint64_t now) const {
  uint64_t until = UINT64_MAX;
  if (!strangers_.empty()) until = peers_.at(strangers_.front()).deadline_ns;
  if (listen_again_ns_ != 0) until = std::min(until, listen_again_ns_);
  return until > now ? (until - now) / base::kNsPerMs + 1 : 0;
}

void ConnectionListener::OnEvent(uint64_t id) {
  if (id == kListener) return AcceptPeers();
  if (id == kLocalListener) return AcceptReaders();
  if (const auto peer = peers_.find(id); peer != peers_.end()) return OnPeer(id, peer->second);
  if (const auto reader = readers_.find(id); reader != readers_.end()) {
    OnReader(id, reader->second);
  }
}

void ConnectionListener::AcceptPeers() {
  for (int i = 0; i < kAcceptsMax; ++i) {
    auto socket = tcp_socket_.Accept();
    if (socket.ok()) {
      AddStranger(std::move(*socket));
    } else if (socket.status().code() == Code::kNotFound) {
      return;
    } else if (strangers_.empty()) {
      return PauseListening();
    } else {
      DropOldestStranger();  // no descriptor is left: this frees one
    }
  }
}

void ConnectionListener::AcceptReaders() {
  for (int i = 0; i < kAcceptsMax; ++i) {
    auto socket = local_socket_.Accept();
    if (socket.status().code() == Code::kNotFound) return;
    const Status added = socket.ok() ? AddReader(std::move(*socket)) : socket.status();
    if (added.ok()) continue;
    refused_readers_.Warn("a reader was sent away: " + added.ToString(), io::RealClock().NowNs());
    if (socket.ok()) continue;
    if (strangers_.empty()) return PauseListening();
    DropOldestStranger();
  }
}

// A connection that cannot be accepted stays in the system's queue, and would wake the poller again
// at once.
void ConnectionListener::PauseListening() {
  poller_->Remove(tcp_socket_.fd());
  poller_->Remove(local_socket_.fd());
  listen_again_ns_ = io::RealClock().NowNs() + kPauseNs;
}

void ConnectionListener::AddStranger(io::Socket socket) {
  if (strangers_.size() >= limits_.strangers_max) DropOldestStranger();
  const uint64_t id = next_id_++;
  if (!poller_->Add(socket.fd(), id, true).ok()) return;
  Peer& peer = peers_[id];
  peer.fd = socket.fd();
  peer.socket = std::move(socket);
  peer.handshake = std::make_unique<ServerHandshake>(token_, NewNonce());
  peer.deadline_ns = io::RealClock().NowNs() + limits_.handshake_ms * base::kNsPerMs;
  strangers_.push_back(id);
}

Status ConnectionListener::AddReader(io::Socket socket) {
  QUIRE_ASSIGN_OR_RETURN(const uint32_t user, socket.PeerUser());
  if (user != io::UserId()) {
    return Status(Code::kInvalidArgument, "user " + std::to_string(user) + " is not this one");
  }
  if (readers_.size() >= limits_.readers_max) {
    (void)socket.SendRefusal().ok();
    return Status(Code::kBusy, "there are as many readers as can be");
  }
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<stream::QueueServer> queue, stream::QueueServer::New());
  QUIRE_RETURN_IF_ERROR(socket.SendDescriptor(queue->fd()));
  const uint64_t id = next_id_++;
  QUIRE_RETURN_IF_ERROR(poller_->Add(socket.fd(), id));
  readers_[id] = {std::move(socket), std::move(queue)};
  return Status();
}

void ConnectionListener::OnPeer(uint64_t id, Peer& peer) {
  if (peer.channel) {
    peer.busy = true;
    return events_->on_request(id, peer.channel);
  }
  const Status status = ShakeHands(id, peer);
  if (status.ok()) return;
  if (status.code() == Code::kInvalidArgument) {
    refused_peers_.Warn("a connection was refused: " + status.ToString(), io::RealClock().NowNs());
  }
  DropPeer(id);
}

Status ConnectionListener::ShakeHands(uint64_t id, Peer& peer) {
  char bytes[kHandshakeFrameBytes];
  const size_t missing = kHandshakeFrameBytes - peer.frame.size();
  QUIRE_ASSIGN_OR_RETURN(const size_t got, peer.socket.ReadSome(bytes, missing));
  peer.frame.append(bytes, got);
  if (got == missing) {
    QUIRE_ASSIGN_OR_RETURN(const std::string answer, peer.handshake->Consume(peer.frame));
    if (peer.handshake->done()) QUIRE_RETURN_IF_ERROR(MakeRoomForPeer());
    QUIRE_ASSIGN_OR_RETURN(const size_t sent, peer.socket.WriteSome(answer));
    if (sent != answer.size()) return Status(Code::kPeerFailed, "a stranger reads nothing");
    peer.frame.clear();
  }
  if (peer.handshake->done()) {
    const ChannelKeys keys = peer.handshake->keys();
    peer.handshake.reset();
    peer.channel =
        std::make_shared<Channel>(std::move(peer.socket), keys.to_client, keys.to_server);
    peer.idle_from_ns = io::RealClock().NowNs();
    strangers_.remove(id);
  }
  return poller_->Rearm(peer.fd, id);
}

void ConnectionListener::OnReader(uint64_t id, Reader& reader) {
  char bells[64];
  const auto rung = reader.socket.ReadSome(bells, sizeof bells);
  if (rung.ok()) return events_->on_bell(reader.queue);
  poller_->Remove(reader.socket.fd());
  readers_.erase(id);  // requests under way keep the queue's memory until they end
}

void ConnectionListener::DropPeer(uint64_t id) {
  const auto peer = peers_.find(id);
  if (peer == peers_.end()) return;
  poller_->Remove(peer->second.fd);
  if (!peer->second.channel) strangers_.remove(id);
  peers_.erase(peer);
}

void ConnectionListener::DropOldestStranger() {
  if (!strangers_.empty()) DropPeer(strangers_.front());
}

// Closes the peer's connection that has been idle longest. Its peer opens another one for its next
// request, so that unused connections shut out no peer.
Status ConnectionListener::MakeRoomForPeer() {
  if (peers_.size() - strangers_.size() < limits_.peers_max) return Status();
  auto longest = peers_.end();
  for (auto one = peers_.begin(); one != peers_.end(); ++one) {
    if (!one->second.channel || one->second.busy) continue;
    const bool longer =
        longest == peers_.end() || one->second.idle_from_ns < longest->second.idle_from_ns;
    if (longer) longest = one;
  }
  if (longest == peers_.end()) {
    return Status(Code::kInvalidArgument, "all connections that there may be are in use");
  }
  DropPeer(longest->first);
  return Status();
}

void ConnectionListener::DropLateStrangers(uint64_t now) {
  while (!strangers_.empty() && peers_.at(strangers_.front()).deadline_ns <= now) {
    DropOldestStranger();
  }
  if (listen_again_ns_ == 0 || now < listen_again_ns_) return;
  listen_again_ns_ = 0;
  const bool listening = poller_->Add(tcp_socket_.fd(), kListener).ok() &&
                         poller_->Add(local_socket_.fd(), kLocalListener).ok();
  if (!listening) PauseListening();
}

void ConnectionListener::TakeResumed() {
  std::vector<Resumed> resumed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    resumed.swap(resumed_);
  }
  for (const Resumed& one : resumed) {
    const auto peer = peers_.find(one.id);
    if (peer == peers_.end()) continue;
    peer->second.busy = false;
    peer->second.idle_from_ns = io::RealClock().NowNs();
    if (!one.keep || !poller_->Rearm(peer->second.fd, one.id).ok()) DropPeer(one.id);
  }
}

}  // namespace quire::streamd
