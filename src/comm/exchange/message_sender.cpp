#include "comm/exchange/message_sender.h"

#include <algorithm>

#include "base/core/scope_exit.h"

namespace quire::comm {
namespace {

// The part [offset, offset + size) of `head` and `body` joined.
void Cut(Slice head, Slice body, uint64_t offset, uint64_t size, Slice* head_part,
         Slice* body_part) {
  *head_part = offset < head.size() ? head.substr(offset, size) : Slice();
  const uint64_t rest = size - head_part->size();
  const uint64_t body_offset = offset + head_part->size() - head.size();
  *body_part = rest == 0 ? Slice() : body.substr(body_offset, rest);
}

}  // namespace

Status MessageSender::AcquireWindow(Peer& peer, uint64_t bytes) {
  WindowQueue::Place place;
  bool waits = false;
  auto acquire = [&] {
    uint64_t taken = peer.outstanding_bytes.load(std::memory_order_relaxed);
    do {
      if (peer.failed.load(std::memory_order_acquire)) return true;
      // A message larger than the window is sent when nothing else is in flight.
      if (taken != 0 && taken + bytes > state_.options.window_bytes) return false;
      if (waits ? !peer.window_queue.IsFirst(place) : !peer.window_queue.empty()) return false;
    } while (!peer.outstanding_bytes.compare_exchange_weak(taken, taken + bytes,
                                                           std::memory_order_acq_rel));
    return true;
  };
  if (!acquire()) {
    state_.counters.send_stalls.fetch_add(1, std::memory_order_relaxed);
    peer.window_queue.Join(&place);
    waits = true;
    const base::ScopeExit leaves([&] {
      peer.window_queue.Leave(&place);
      state_.sleepers.Notify(&peer);  // the next one may go
    });
    WaitSpec spec{&peer, peer.rank, "answers to earlier requests, to send more"};
    QUIRE_RETURN_IF_ERROR(progress_.WaitUntil(spec, Condition(acquire)));
  }
  return peer.failed.load(std::memory_order_acquire) ? peer.Failure() : Status();
}

Status MessageSender::SendFrames(Peer& peer, MessageHeader header, Slice head, Slice body,
                                 uint64_t deadline_ns) {
  const uint64_t part_max = state_.transport->frame_bytes_max(peer.rank) - kMessageHeaderBytes;
  do {
    const uint64_t part = std::min(part_max, header.total_size - header.offset);
    Slice head_part;
    Slice body_part;
    Cut(head, body, header.offset, part, &head_part, &body_part);
    Status error;
    auto send = [&] {
      const Result<bool> sent = state_.TrySendFrame(peer, header, head_part, body_part);
      if (!sent.ok()) error = sent.status();
      return !sent.ok() || *sent;
    };
    if (!send()) {
      state_.counters.send_stalls.fetch_add(1, std::memory_order_relaxed);
      WaitSpec spec{&peer, peer.rank, "room to send", deadline_ns};
      QUIRE_RETURN_IF_ERROR(progress_.WaitUntil(spec, Condition(send)));
    }
    QUIRE_RETURN_IF_ERROR(error);
    header.offset += part;
  } while (header.offset < header.total_size);
  return Status();
}

// Ends a thread's right to send to a peer, even if the transport throws.
class MessageSender::Sending {
 public:
  Sending(WaitSet* sleepers, Peer* peer) : sleepers_(sleepers), peer_(peer) {}
  ~Sending() {
    peer_->sending.store(false, std::memory_order_release);
    sleepers_->Notify(peer_);
  }
  Sending(const Sending&) = delete;
  Sending& operator=(const Sending&) = delete;

 private:
  WaitSet* const sleepers_;
  Peer* const peer_;
};

Status MessageSender::Send(Peer& peer, MessageHeader header, Slice head, Slice body,
                           uint64_t deadline_ns) {
  auto acquire = [&] { return !peer.sending.exchange(true, std::memory_order_acquire); };
  if (!acquire()) {
    WaitSpec spec{&peer, peer.rank, "another thread's message to be sent", deadline_ns};
    QUIRE_RETURN_IF_ERROR(progress_.WaitUntil(spec, Condition(acquire)));
  }
  header.total_size = head.size() + body.size();
  const Sending sending(&state_.sleepers, &peer);
  return SendFrames(peer, header, head, body, deadline_ns);
}

}  // namespace quire::comm
