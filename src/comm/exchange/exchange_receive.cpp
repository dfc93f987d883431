#include <algorithm>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "comm/exchange/exchange_impl.h"

namespace quire::comm {
namespace {

// The order of signals: behind all that came before.
constexpr uint32_t kSignalOrder = 0;
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
    LoseAnswer(peer, header, status);
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
  return !peer.held.empty() || !MayQueueAnswer(peer);
}

// Whether an answer to it may have to wait for room. Those to this rank itself never do.
bool ExchangeImpl::MayQueueAnswer(const Peer& peer) const {
  return peer.rank == rank_ ||
         (peer.queued_bytes <= options_.window_bytes &&
          queued_bytes_ <= answer_bytes_max_.load(std::memory_order_relaxed));
}

void ExchangeImpl::Hold(Peer& peer, const MessageHeader& header, Slice payload) {
  ListHeld(peer);
  peer.held.push_back({header.kind, header.channel, header.call, std::string(payload)});
  Buffer(0, payload.size());
}

void ExchangeImpl::ListHeld(Peer& peer) {
  if (peer.in_held_list) return;
  held_list_.push_back(&peer);
  peer.in_held_list = true;
}

void ExchangeImpl::HandleSignal(Peer& peer, int signal) {
  if (MustFollow(peer, kSignalOrder)) {
    std::list<UnfinishedMessage> place = PlaceForUnfinished(peer);
    place.front().message = {MessageKind::kSignal, static_cast<uint32_t>(signal), 0, {}};
    return KeepUnfinished(peer, std::move(place));
  }
  if (!signals_.Add(signal, peer.rank)) {
    return FailPeer(peer, Status(Code::kCorruption, "received too many different signals"));
  }
  sleepers_.Notify(&signals_);
}

void ExchangeImpl::HandleRequest(Peer& peer, uint32_t channel, uint64_t call, Slice payload) {
  if (!services_.Has(channel) || HasUnserved(peer, channel)) {
    return KeepUnserved(peer, channel, call, payload);
  }
  const uint32_t order = services_.OrderOf(channel);
  std::list<UnfinishedMessage> place;  // what has begun is kept without memory
  if (order != 0) {
    place = PlaceForUnfinished(peer);
    place.front() = {{MessageKind::kRequest, channel, call, {}}, order, nullptr};
    if (MustFollow(peer, order)) {
      place.front().message.payload = payload;
      return KeepUnfinished(peer, std::move(place));
    }
  }
  answer_.clear();
  if (answer_.capacity() > kKeptBytesMax) std::string().swap(answer_);
  std::unique_ptr<UnfinishedRequest> rest;
  const Status status = services_.Run(channel, peer.rank, payload, &answer_, &rest);
  AddPolled(counters_.requests_handled, 1);
  if (rest == nullptr) return SendAnswer(peer, call, status, &answer_);
  place.front().rest = std::move(rest);
  KeepUnfinished(peer, std::move(place));
}

// Those that came before the service go first.
bool ExchangeImpl::HasUnserved(const Peer& peer, uint32_t channel) {
  return std::any_of(peer.unserved.begin(), peer.unserved.end(),
                     [&](const HeldMessage& message) { return message.channel == channel; });
}

void ExchangeImpl::KeepUnserved(Peer& peer, uint32_t channel, uint64_t call, Slice payload) {
  if (!peer.in_unserved_list) {
    unserved_list_.push_back(&peer);
    peer.in_unserved_list = true;
  }
  peer.unserved.push_back({MessageKind::kRequest, channel, call, std::string(payload)});
  Buffer(0, payload.size());
}

// Whether it has to wait for what came before it from the same peer.
bool ExchangeImpl::MustFollow(const Peer& peer, uint32_t order) {
  if (order == kSignalOrder) return !peer.unfinished.empty();
  const std::vector<uint32_t>& orders = peer.unfinished_orders;
  return std::find(orders.begin(), orders.end(), order) != orders.end();
}

std::list<UnfinishedMessage> ExchangeImpl::PlaceForUnfinished(Peer& peer) {
  peer.unfinished_orders.reserve(peer.unfinished_orders.size() + 1);
  unfinished_list_.reserve(unfinished_list_.size() + 1);
  return std::list<UnfinishedMessage>(1);
}

// What PlaceForUnfinished gave, filled. Takes no memory.
void ExchangeImpl::KeepUnfinished(Peer& peer, std::list<UnfinishedMessage> place) {
  const UnfinishedMessage& unfinished = place.front();
  Buffer(0, unfinished.message.payload.size());
  if (unfinished.order != kSignalOrder && !MustFollow(peer, unfinished.order)) {
    peer.unfinished_orders.push_back(unfinished.order);
  }
  peer.unfinished.splice(peer.unfinished.end(), place);
  if (!std::exchange(peer.in_unfinished_list, true)) unfinished_list_.push_back(&peer);
  AskAgain();
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

// A failure is the request's, also without its text. Success is not said: what the caller asked for
// is lost. But the request has been served, which must not look as if it had not.
void ExchangeImpl::LoseAnswer(Peer& peer, const MessageHeader& header, const Status& why) {
  if (header.code != Code::kOk) return EndCall(peer, header.call, Status(header.code), {});
  EndCall(peer, header.call, why, {}, /*lost=*/true);
}

void ExchangeImpl::EndCall(Peer& peer, uint64_t number, Status status, std::string answer,
                           bool lost) {
  const std::shared_ptr<PendingCall> call = calls_.Take(number);
  if (call == nullptr || call->destination() != peer.rank) {
    return FailPeer(peer, Status(Code::kCorruption,
                                 "received an answer to a request that was "
                                 "not sent to its sender"));
  }
  if (lost) call->LoseAnswer();
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
  for (std::list<HeldMessage>* const messages : {&peer.held, &peer.unserved}) {
    for (const HeldMessage& message : *messages) Buffer(message.payload.size(), 0);
    messages->clear();
  }
  for (const UnfinishedMessage& message : peer.unfinished) {
    Buffer(message.message.payload.size(), 0);
  }
  peer.unfinished.clear();
  peer.unfinished_orders.clear();
  const Status failure = peer.Failure();
  while (const std::shared_ptr<PendingCall> call = calls_.TakeOne(peer.rank)) {
    if (why.code() == Code::kOutOfMemory) call->LoseAnswer();
    call->Complete(failure, {});
    ReleaseWindow(peer, call->window_bytes());
  }
  if (!held_list_.empty()) deferred_.store(true, std::memory_order_relaxed);
  sleepers_.NotifyAll();
}

int ExchangeImpl::HandleDeferred() {
  int count = HandleUnfinished();
  HoldServed();
  count += HandleAllHeld();  // before what this rank sent itself later
  return count + HandleOwn();
}

int ExchangeImpl::HandleUnfinished() {
  int count = 0;
  size_t kept = 0;
  for (size_t i = 0; i < unfinished_list_.size(); ++i) {
    Peer* const peer = unfinished_list_[i];
    count += HandleUnfinishedOf(*peer);
    peer->in_unfinished_list = !peer->unfinished.empty();
    if (peer->in_unfinished_list) unfinished_list_[kept++] = peer;
  }
  unfinished_list_.resize(kept);
  if (kept != 0) {
    AskAgain();
  } else {
    ask_again_ns_ = 0;
    has_unfinished_.store(false, std::memory_order_relaxed);
  }
  return count;
}

// In order; one that still waits keeps those behind it of the same order, and all signals.
int ExchangeImpl::HandleUnfinishedOf(Peer& peer) {
  int count = 0;
  std::list<UnfinishedMessage> messages = std::exchange(peer.unfinished, {});
  peer.unfinished_orders.clear();
  while (!messages.empty()) {
    UnfinishedMessage& first = messages.front();
    const bool follows = MustFollow(peer, first.order);
    if (!follows && FinishOne(peer, &first)) {
      ++count;
      messages.pop_front();
    } else if (peer.failed.load(std::memory_order_relaxed)) {
      break;  // nobody waits for the answers
    } else {
      if (!MustFollow(peer, first.order)) peer.unfinished_orders.push_back(first.order);
      peer.unfinished.splice(peer.unfinished.end(), messages, messages.begin());
    }
  }
  for (const UnfinishedMessage& message : messages) Buffer(message.message.payload.size(), 0);
  return count;
}

// True: it needs nothing any more. What has not begun begins.
bool ExchangeImpl::FinishOne(Peer& peer, UnfinishedMessage* unfinished) {
  HeldMessage& message = unfinished->message;
  if (message.kind == MessageKind::kSignal) {
    HandleKept(peer, message);
    return true;
  }
  if (unfinished->rest == nullptr && !MayQueueAnswer(peer)) return false;
  answer_.clear();
  Status status;
  if (unfinished->rest != nullptr) {
    status = services_.GoOn(message.channel, peer.rank, &answer_, &unfinished->rest);
  } else {
    status =
        services_.Run(message.channel, peer.rank, message.payload, &answer_, &unfinished->rest);
    AddPolled(counters_.requests_handled, 1);
    Buffer(message.payload.size(), 0);
    std::string().swap(message.payload);
  }
  if (unfinished->rest != nullptr) return false;
  SendAnswer(peer, message.call, status, &answer_);
  return true;
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

// Moves the requests whose channel has a service now to the front of those that are held.
void ExchangeImpl::HoldServed() {
  size_t kept = 0;
  for (size_t i = 0; i < unserved_list_.size(); ++i) {
    Peer* const peer = unserved_list_[i];
    ListHeld(*peer);
    std::list<HeldMessage> served;  // moved node by node: takes no memory
    for (auto message = peer->unserved.begin(); message != peer->unserved.end();) {
      const auto here = message++;
      if (services_.Has(here->channel)) served.splice(served.end(), peer->unserved, here);
    }
    peer->held.splice(peer->held.begin(), served);
    peer->in_unserved_list = !peer->unserved.empty();
    if (peer->in_unserved_list) unserved_list_[kept++] = peer;
  }
  unserved_list_.resize(kept);
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
  while (!peer.held.empty() && MayQueueAnswer(peer)) {
    const HeldMessage message = std::move(peer.held.front());
    peer.held.pop_front();
    Buffer(message.payload.size(), 0);
    ++count;
    HandleKept(peer, message);
  }
  return count;
}

}  // namespace quire::comm
