#include <algorithm>
#include <utility>

#include "base/out_of_memory.h"
#include "comm/exchange_impl.h"

namespace quire::comm {
namespace {

// Larger buffers are given back to the system rather than kept for the next message.
constexpr uint64_t kKeptBytesMax = 4 << 20;

// For counters that the holder of the poll right alone changes.
void AddPolled(std::atomic<uint64_t>& counter, uint64_t count) {
  counter.store(counter.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
}

}  // namespace

void ExchangeImpl::Buffer(uint64_t before, uint64_t now) {
  counters_.buffered_bytes.fetch_add(now - before, std::memory_order_relaxed);
}

// A frame that does not fit into memory fails what it belongs to, and else its sender: a message
// that is lost must not be waited for.
void ExchangeImpl::OnFrame(int source, Slice frame) {
  Peer& peer = peers_.Get(source);
  if (!base::OrOutOfMemory([&] {
        TakeFrame(peer, frame);
        return Status();
      }).ok()) {
    FailPeer(peer, base::OutOfMemory());
  }
}

void ExchangeImpl::TakeFrame(Peer& peer, Slice frame) {
  if (peer.failed.load(std::memory_order_relaxed)) return;
  AddPolled(counters_.bytes_received, frame.size());
  Slice part;
  const Result<MessageHeader> header =
      DecodeMessageHeader(frame, options_.message_bytes_max + UINT32_MAX, &part);
  if (!header.ok()) return FailPeer(peer, header.status());
  const bool is_answer = header->kind == MessageKind::kAnswer;
  MessageJoiner& joiner = is_answer ? peer.answers : peer.requests;
  const uint64_t before = joiner.buffered_bytes();
  if (header->offset == 0 && part.size() == header->total_size) {
    joiner.Drop();
    Buffer(before, 0);
    return HandleMessage(peer, *header, part, nullptr);
  }
  if (header->offset == 0 && !is_answer) joiner.Lend(std::move(spare_));
  const Result<bool> whole = joiner.Add(*header, part);
  Buffer(before, joiner.buffered_bytes());
  if (!whole.ok()) return FailPeer(peer, whole.status());
  if (!*whole) return;
  const bool lost = joiner.out_of_memory();
  std::string payload = joiner.Take();
  if (lost) return HandleLost(peer, *header);
  HandleMessage(peer, *header, payload, &payload);
  if (payload.capacity() <= kKeptBytesMax) spare_ = std::move(payload);
}

void ExchangeImpl::HandleLost(Peer& peer, const MessageHeader& header) {
  const Status status = base::OrOutOfMemory([&] {
    return Status(Code::kOutOfMemory, "rank " + std::to_string(rank_) +
                                          " had no memory to receive a message of " +
                                          std::to_string(header.total_size) + " bytes");
  });
  if (header.kind == MessageKind::kRequest) {
    answer_.clear();
    SendAnswer(peer, header.call, status, &answer_);
  } else if (header.kind == MessageKind::kAnswer) {
    EndCall(peer, header.call, status, {});
  } else if (header.kind != MessageKind::kCollective || !parts_.Add(peer.rank, header.call, {})) {
    FailPeer(peer, status);
  } else {
    sleepers_.Notify(&parts_);
  }
}

void ExchangeImpl::HandleMessage(Peer& peer, const MessageHeader& header, Slice payload,
                                 std::string* owned) {
  const Status kept = base::OrOutOfMemory([&] {
    KeepMessage(peer, header, payload, owned);
    return Status();
  });
  if (!kept.ok()) HandleLost(peer, header);
}

// What throws std::bad_alloc in here has not been handled.
void ExchangeImpl::KeepMessage(Peer& peer, const MessageHeader& header, Slice payload,
                               std::string* owned) {
  switch (header.kind) {
    case MessageKind::kRequest:
    case MessageKind::kSignal:
      if (MustHold(peer)) return Hold(peer, header, payload);
      if (header.kind == MessageKind::kSignal) {
        return HandleSignal(peer, static_cast<int>(header.channel));
      }
      return HandleRequest(peer, header.channel, header.call, payload);
    case MessageKind::kAnswer:
      return CompleteCall(peer, header, payload, owned);
    case MessageKind::kCollective:
      if (!parts_.Add(peer.rank, header.call, payload)) {
        return FailPeer(peer, Status(Code::kCorruption,
                                     "received more parts of collectives than "
                                     "one rank can have under way"));
      }
      sleepers_.Notify(&parts_);
  }
}

bool ExchangeImpl::MustHold(const Peer& peer) const {
  return !peer.held.empty() || peer.queued_bytes > options_.window_bytes ||
         queued_bytes_ > answer_bytes_max_.load(std::memory_order_relaxed);
}

void ExchangeImpl::Hold(Peer& peer, const MessageHeader& header, Slice payload) {
  peer.held.push_back({header.kind, header.channel, header.call, std::string(payload)});
  Buffer(0, payload.size());
  if (!std::exchange(peer.in_held_list, true)) held_list_.push_back(&peer);
}

void ExchangeImpl::HandleSignal(Peer& peer, int signal) {
  if (!signals_.Add(signal, peer.rank)) {
    return FailPeer(peer, Status(Code::kCorruption, "received too many different signals"));
  }
  sleepers_.Notify(&signals_);
}

void ExchangeImpl::HandleRequest(Peer& peer, uint32_t channel, uint64_t call, Slice payload) {
  // Those that came before the service go first; without a service this one waits with them.
  if (const auto waiting = unserved_.find(channel);
      waiting != unserved_.end() || !services_.Has(channel)) {
    unserved_[channel].push_back(
        {peer.rank, {MessageKind::kRequest, channel, call, std::string(payload)}});
    Buffer(0, payload.size());
    return;
  }
  answer_.clear();
  if (answer_.capacity() > kKeptBytesMax) std::string().swap(answer_);
  const Status status = services_.Run(channel, peer.rank, payload, &answer_);
  AddPolled(counters_.requests_handled, 1);
  SendAnswer(peer, call, status, &answer_);
}

// What was served is answered, or its sender hears nothing more: its outcome is unknown there, and
// not that it failed.
void ExchangeImpl::SendAnswer(Peer& peer, uint64_t call, const Status& status,
                              std::string* answer) {
  const Status sent = base::OrOutOfMemory([&] {
    PutAnswer(peer, call, status, answer);
    return Status();
  });
  if (!sent.ok()) FailPeer(peer, sent);
}

void ExchangeImpl::CompleteCall(Peer& peer, const MessageHeader& header, Slice payload,
                                std::string* owned) {
  const uint32_t text_size = header.channel;
  Status status;
  if (header.code != Code::kOk) {
    status = text_size == 0 ? Status(header.code)
                            : Status(header.code, std::string(payload.substr(0, text_size)));
  }
  if (owned != nullptr && text_size == 0) {
    EndCall(peer, header.call, std::move(status), std::move(*owned));
  } else {
    EndCall(peer, header.call, std::move(status), std::string(payload.substr(text_size)));
  }
}

void ExchangeImpl::EndCall(Peer& peer, uint64_t number, Status status, std::string answer) {
  const std::shared_ptr<PendingCall> call = calls_.Take(number);
  if (call == nullptr || call->destination() != peer.rank) {
    return FailPeer(peer, Status(Code::kCorruption,
                                 "received an answer to a request that was "
                                 "not sent to its sender"));
  }
  call->Complete(std::move(status), std::move(answer));
  ReleaseWindow(peer, call->window_bytes());
  sleepers_.Notify(call.get(), &peer);
}

void ExchangeImpl::PutAnswer(Peer& peer, uint64_t call, const Status& status,
                             std::string* answer) {
  if (answer->size() > options_.message_bytes_max) {
    const Status too_long(Code::kInvalidArgument, "an answer of " + std::to_string(answer->size()) +
                                                      " bytes; messages may have at most " +
                                                      std::to_string(options_.message_bytes_max));
    std::string().swap(*answer);
    return PutAnswer(peer, call, too_long, answer);
  }
  if (peer.rank == rank_) return EndCall(peer, call, status, std::move(*answer));
  const std::string& text = status.message();
  MessageHeader header;
  header.kind = MessageKind::kAnswer;
  header.code = status.code();
  header.channel = static_cast<uint32_t>(text.size());
  header.call = call;
  header.total_size = text.size() + answer->size();
  const uint64_t part_max = transport_->frame_bytes_max(peer.rank) - kMessageHeaderBytes;
  if (peer.queued_answers.empty() && header.total_size <= part_max) {
    // Without memory for the frame it is queued as where there is no room, and tried once more.
    const Result<bool> sent =
        base::OrOutOfMemory([&] { return TrySendFrame(peer, header, text, *answer); });
    const bool again = sent.status().code() == Code::kOutOfMemory;
    if (!again && (!sent.ok() || *sent)) return;  // a peer that failed needs no answer
  }
  QueuedAnswer queued{header, {}};
  queued.payload = text.empty() ? std::move(*answer) : text + *answer;
  peer.queued_answers.push_back(std::move(queued));
  peer.queued_bytes += header.total_size;
  queued_bytes_ += header.total_size;
  Buffer(0, header.total_size);
  FlushAnswers(peer);
}

void ExchangeImpl::FlushAnswers(Peer& peer) {
  const uint64_t part_max = transport_->frame_bytes_max(peer.rank) - kMessageHeaderBytes;
  while (!peer.queued_answers.empty()) {
    QueuedAnswer& answer = peer.queued_answers.front();
    const uint64_t part = std::min(part_max, answer.header.total_size - answer.header.offset);
    const Slice bytes = Slice(answer.payload).substr(answer.header.offset, part);
    const Result<bool> sent = TrySendFrame(peer, answer.header, bytes, {});
    if (!sent.ok()) return DropAnswers(peer);
    if (!*sent) return;
    answer.header.offset += part;
    if (answer.header.offset < answer.header.total_size) continue;
    peer.queued_bytes -= answer.header.total_size;
    queued_bytes_ -= answer.header.total_size;
    Buffer(answer.header.total_size, 0);
    peer.queued_answers.pop_front();
  }
}

void ExchangeImpl::DropAnswers(Peer& peer) {
  queued_bytes_ -= peer.queued_bytes;
  Buffer(peer.queued_bytes, 0);
  peer.queued_bytes = 0;
  peer.queued_answers.clear();
}

void ExchangeImpl::OnRoom(int destination) {
  Peer& peer = peers_.Get(destination);
  FlushAnswers(peer);  // answers first: who waits for them may be what others wait for
  if (!held_list_.empty()) deferred_.store(true, std::memory_order_relaxed);
  sleepers_.Notify(&peer);
}

void ExchangeImpl::OnPeerFailed(int source, const Status& why) {
  FailPeer(peers_.Get(source), why);
}

void ExchangeImpl::FailPeer(Peer& peer, const Status& why) {
  if (peer.failed.load(std::memory_order_relaxed)) return;
  peer.why_failed = why;
  peer.failed.store(true, std::memory_order_seq_cst);
  Buffer(peer.requests.buffered_bytes() + peer.answers.buffered_bytes(), 0);
  peer.requests.Drop();
  peer.answers.Drop();
  DropAnswers(peer);
  for (const HeldMessage& message : peer.held) Buffer(message.payload.size(), 0);
  peer.held.clear();
  const Status failure = base::OrOutOfMemory([&] { return peer.Failure(); });
  while (const std::shared_ptr<PendingCall> call = calls_.TakeOne(peer.rank)) {
    call->Complete(failure, {});
    ReleaseWindow(peer, call->window_bytes());
  }
  if (!held_list_.empty()) deferred_.store(true, std::memory_order_relaxed);
  sleepers_.NotifyAll();
}

int ExchangeImpl::HandleDeferred() {
  return HandleOwn() + HandleUnserved() + HandleAllHeld();
}

void ExchangeImpl::HandleKept(Peer& peer, const HeldMessage& message) {
  const Status kept = base::OrOutOfMemory([&] {
    if (message.kind == MessageKind::kSignal) {
      HandleSignal(peer, static_cast<int>(message.channel));
    } else {
      HandleRequest(peer, message.channel, message.call, message.payload);
    }
    return Status();
  });
  if (kept.ok()) return;
  MessageHeader header;
  header.kind = message.kind;
  header.call = message.call;
  header.total_size = message.payload.size();
  HandleLost(peer, header);
}

int ExchangeImpl::HandleOwn() {
  std::vector<HeldMessage> messages;  // a deque takes memory even where it is empty
  {
    const std::lock_guard<std::mutex> lock(own_mutex_);
    messages.swap(own_);
  }
  Peer& self = peers_.Get(rank_);
  for (const HeldMessage& message : messages) {
    Buffer(message.payload.size(), 0);
    HandleKept(self, message);
  }
  return static_cast<int>(messages.size());
}

int ExchangeImpl::HandleUnserved() {
  int count = 0;
  for (auto entry = unserved_.begin(); entry != unserved_.end();) {
    if (!services_.Has(entry->first)) {
      ++entry;
      continue;
    }
    auto messages = std::move(entry->second);
    entry = unserved_.erase(entry);
    for (const auto& [source, message] : messages) {
      Peer& peer = peers_.Get(source);
      Buffer(message.payload.size(), 0);
      ++count;
      if (peer.failed.load(std::memory_order_relaxed)) continue;
      HandleKept(peer, message);
    }
  }
  return count;
}

int ExchangeImpl::HandleAllHeld() {
  int count = 0;
  size_t kept = 0;
  for (size_t i = 0; i < held_list_.size(); ++i) {
    Peer* const peer = held_list_[i];
    count += HandleHeld(*peer);
    peer->in_held_list = !peer->held.empty();
    if (peer->in_held_list) held_list_[kept++] = peer;
  }
  held_list_.resize(kept);
  return count;
}

int ExchangeImpl::HandleHeld(Peer& peer) {
  int count = 0;
  while (!peer.held.empty() && peer.queued_bytes <= options_.window_bytes &&
         queued_bytes_ <= answer_bytes_max_.load(std::memory_order_relaxed)) {
    const HeldMessage message = std::move(peer.held.front());
    peer.held.pop_front();
    Buffer(message.payload.size(), 0);
    ++count;
    HandleKept(peer, message);
  }
  return count;
}

}  // namespace quire::comm
