#include "comm/exchange/request_handler.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/core/out_of_memory.h"

namespace quire::comm {
namespace {

// The order of signals: they follow all earlier messages.
constexpr uint32_t kSignalOrder = 0;
// A larger buffer for answers is returned to the system.
constexpr uint64_t kAnswerBytesMax = 4 << 20;

}  // namespace

void RequestHandler::Handle(Peer& peer, const MessageHeader& header, Slice payload) {
  if (MustHold(peer)) return Hold(peer, header, payload);
  if (header.kind == MessageKind::kSignal) {
    return HandleSignal(peer, static_cast<int>(header.channel));
  }
  HandleRequest(peer, header.channel, header.call, payload);
}

void RequestHandler::HandleNow(Peer& peer, const HeldMessage& message) {
  if (message.kind == MessageKind::kSignal) {
    return HandleSignal(peer, static_cast<int>(message.channel));
  }
  HandleRequest(peer, message.channel, message.call, message.payload);
}

void RequestHandler::Refuse(Peer& peer, const MessageHeader& header, const Status& why) {
  if (header.kind != MessageKind::kRequest) return host_.FailPeer(peer, why);
  answer_.clear();
  SendAnswer(peer, header.call, why, &answer_);
}

int RequestHandler::HandleDue() {
  if (ask_again_ns_ != 0 && state_.transport->clock().NowNs() >= ask_again_ns_) {
    deferred_.store(true);
  }
  if (!deferred_.load(std::memory_order_relaxed) || !deferred_.exchange(false)) return 0;
  return HandleDeferred();
}

void RequestHandler::OnRoom(Peer& peer) {
  answers_.Flush(peer);
  if (!held_list_.empty()) deferred_.store(true, std::memory_order_relaxed);
}

void RequestHandler::Drop(Peer& peer) {
  answers_.Drop(peer);
  for (std::list<HeldMessage>* const messages : {&peer.held, &peer.unserved}) {
    for (const HeldMessage& message : *messages) state_.counters.Buffer(message.payload.size(), 0);
    messages->clear();
  }
  for (const UnfinishedMessage& message : peer.unfinished) {
    state_.counters.Buffer(message.message.payload.size(), 0);
  }
  peer.unfinished.clear();
  peer.unfinished_orders.clear();
  if (!held_list_.empty()) deferred_.store(true, std::memory_order_relaxed);
}

void RequestHandler::Serve(uint32_t channel, Service service) {
  if (service == nullptr) {
    services_.TakeAway(channel);
  } else {
    services_.Set(channel, std::move(service));
  }
  Defer();
}

void RequestHandler::ServePatiently(uint32_t channel, uint32_t order, PatientService service) {
  services_.SetPatient(channel, order, std::move(service));
  Defer();
}

// The next thread that polls handles the stored messages.
void RequestHandler::Defer() {
  deferred_.store(true, std::memory_order_release);
  state_.transport->Wake(Waiter::kHandler);
  state_.sleepers.NotifyAll();
}

void RequestHandler::AddOwn(HeldMessage message) {
  const uint64_t bytes = message.payload.size();
  {
    const std::lock_guard<std::mutex> lock(own_mutex_);
    own_.push_back(std::move(message));
    state_.counters.Buffer(0, bytes);
  }
  Defer();
}

bool RequestHandler::MustHold(const Peer& peer) const {
  return !peer.held.empty() || !answers_.MayQueue(peer);
}

void RequestHandler::Hold(Peer& peer, const MessageHeader& header, Slice payload) {
  ListHeld(peer);
  peer.held.push_back({header.kind, header.channel, header.call, std::string(payload)});
  state_.counters.Buffer(0, payload.size());
}

void RequestHandler::ListHeld(Peer& peer) {
  if (peer.in_held_list) return;
  held_list_.push_back(&peer);
  peer.in_held_list = true;
}

void RequestHandler::HandleSignal(Peer& peer, int signal) {
  if (MustFollow(peer, kSignalOrder)) {
    std::list<UnfinishedMessage> place = PlaceForUnfinished(peer);
    place.front().message = {MessageKind::kSignal, static_cast<uint32_t>(signal), 0, {}};
    return KeepUnfinished(peer, std::move(place));
  }
  if (!signals_.Add(signal, peer.rank)) {
    return host_.FailPeer(peer, Status(Code::kCorruption, "received too many different signals"));
  }
  state_.sleepers.Notify(&signals_);
}

void RequestHandler::HandleRequest(Peer& peer, uint32_t channel, uint64_t call, Slice payload) {
  if (!services_.Has(channel) || HasUnserved(peer, channel)) {
    return KeepUnserved(peer, channel, call, payload);
  }
  const uint32_t order = services_.OrderOf(channel);
  std::list<UnfinishedMessage> place;  // made before the request begins, stored without memory
  if (order != 0) {
    place = PlaceForUnfinished(peer);
    place.front() = {{MessageKind::kRequest, channel, call, {}}, order, nullptr};
    if (MustFollow(peer, order)) {
      place.front().message.payload = payload;
      return KeepUnfinished(peer, std::move(place));
    }
  }
  answer_.clear();
  if (answer_.capacity() > kAnswerBytesMax) std::string().swap(answer_);
  std::unique_ptr<UnfinishedRequest> rest;
  const Status status = services_.Run(channel, peer.rank, payload, &answer_, &rest);
  ExchangeCounters::AddPolled(state_.counters.requests_handled, 1);
  if (rest == nullptr) return SendAnswer(peer, call, status, &answer_);
  place.front().rest = std::move(rest);
  KeepUnfinished(peer, std::move(place));
}

// Requests that came before the service go first.
bool RequestHandler::HasUnserved(const Peer& peer, uint32_t channel) {
  return std::any_of(peer.unserved.begin(), peer.unserved.end(),
                     [&](const HeldMessage& message) { return message.channel == channel; });
}

void RequestHandler::KeepUnserved(Peer& peer, uint32_t channel, uint64_t call, Slice payload) {
  if (!peer.in_unserved_list) {
    unserved_list_.push_back(&peer);
    peer.in_unserved_list = true;
  }
  peer.unserved.push_back({MessageKind::kRequest, channel, call, std::string(payload)});
  state_.counters.Buffer(0, payload.size());
}

// Returns whether it must wait for earlier messages of the same peer.
bool RequestHandler::MustFollow(const Peer& peer, uint32_t order) {
  if (order == kSignalOrder) return !peer.unfinished.empty();
  const std::vector<uint32_t>& orders = peer.unfinished_orders;
  return std::find(orders.begin(), orders.end(), order) != orders.end();
}

std::list<UnfinishedMessage> RequestHandler::PlaceForUnfinished(Peer& peer) {
  peer.unfinished_orders.reserve(peer.unfinished_orders.size() + 1);
  unfinished_list_.reserve(unfinished_list_.size() + 1);
  return std::list<UnfinishedMessage>(1);
}

// Stores a message in the place that PlaceForUnfinished returned. Takes no memory.
void RequestHandler::KeepUnfinished(Peer& peer, std::list<UnfinishedMessage> place) {
  const UnfinishedMessage& unfinished = place.front();
  state_.counters.Buffer(0, unfinished.message.payload.size());
  if (unfinished.order != kSignalOrder && !MustFollow(peer, unfinished.order)) {
    peer.unfinished_orders.push_back(unfinished.order);
  }
  peer.unfinished.splice(peer.unfinished.end(), place);
  if (!std::exchange(peer.in_unfinished_list, true)) unfinished_list_.push_back(&peer);
  AskAgain();
}

// Continues unfinished requests a little later.
void RequestHandler::AskAgain() {
  ask_again_ns_ = state_.transport->clock().NowNs() + kAskAgainNs;
  if (has_unfinished_.exchange(true, std::memory_order_acq_rel)) return;
  state_.transport->Wake(Waiter::kHandler);  // it sleeps for longer than that
}

// Answers a request that was served. If this fails, the sender is cut off, and so takes the outcome
// for unknown, not for a failure.
void RequestHandler::SendAnswer(Peer& peer, uint64_t call, const Status& status,
                                std::string* answer) {
  const Status sent = base::OrOutOfMemory([&] {
    PutAnswer(peer, call, status, answer);
    return Status();
  });
  if (!sent.ok()) host_.FailPeer(peer, sent);
}

void RequestHandler::PutAnswer(Peer& peer, uint64_t call, const Status& status,
                               std::string* answer) {
  if (answer->size() > state_.options.message_bytes_max) {
    const Status too_long(Code::kInvalidArgument,
                          "an answer of " + std::to_string(answer->size()) +
                              " bytes; messages may have at most " +
                              std::to_string(state_.options.message_bytes_max));
    std::string().swap(*answer);
    return PutAnswer(peer, call, too_long, answer);
  }
  if (peer.rank == state_.rank)
    return host_.EndCall(peer, call, status, std::move(*answer), /*lost=*/false);
  answers_.Put(peer, call, status, answer);
}

int RequestHandler::HandleDeferred() {
  int count = HandleUnfinished();
  HoldServed();
  count += HandleAllHeld();  // before the requests that this rank sent to itself later
  return count + HandleOwn();
}

int RequestHandler::HandleUnfinished() {
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

// Handles messages in order. One that still waits holds up later ones of the same order, and all
// signals.
int RequestHandler::HandleUnfinishedOf(Peer& peer) {
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
      break;  // no rank waits for the answers
    } else {
      if (!MustFollow(peer, first.order)) peer.unfinished_orders.push_back(first.order);
      peer.unfinished.splice(peer.unfinished.end(), messages, messages.begin());
    }
  }
  for (const UnfinishedMessage& message : messages)
    state_.counters.Buffer(message.message.payload.size(), 0);
  return count;
}

// Returns true if the message is finished. Begins a request that has not begun.
bool RequestHandler::FinishOne(Peer& peer, UnfinishedMessage* unfinished) {
  HeldMessage& message = unfinished->message;
  if (message.kind == MessageKind::kSignal) {
    HandleKept(peer, message);
    return true;
  }
  if (unfinished->rest == nullptr && !answers_.MayQueue(peer)) return false;
  answer_.clear();
  Status status;
  if (unfinished->rest != nullptr) {
    status = services_.GoOn(message.channel, peer.rank, &answer_, &unfinished->rest);
  } else {
    status =
        services_.Run(message.channel, peer.rank, message.payload, &answer_, &unfinished->rest);
    ExchangeCounters::AddPolled(state_.counters.requests_handled, 1);
    state_.counters.Buffer(message.payload.size(), 0);
    std::string().swap(message.payload);
  }
  if (unfinished->rest != nullptr) return false;
  SendAnswer(peer, message.call, status, &answer_);
  return true;
}

void RequestHandler::HandleKept(Peer& peer, const HeldMessage& message) {
  const Status kept = base::OrOutOfMemory([&] {
    HandleNow(peer, message);
    return Status();
  });
  if (kept.ok()) return;
  MessageHeader header;
  header.kind = message.kind;
  header.call = message.call;
  Refuse(peer, header, state_.NoMemoryFor(message.payload.size()));
}

int RequestHandler::HandleOwn() {
  std::vector<HeldMessage> messages;  // a deque allocates memory even if it is empty
  {
    const std::lock_guard<std::mutex> lock(own_mutex_);
    messages.swap(own_);
  }
  Peer& self = state_.peers.Get(state_.rank);
  for (const HeldMessage& message : messages) {
    state_.counters.Buffer(message.payload.size(), 0);
    HandleKept(self, message);
  }
  return static_cast<int>(messages.size());
}

// Moves requests whose channel has a service now to the front of the held requests.
void RequestHandler::HoldServed() {
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

int RequestHandler::HandleAllHeld() {
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

int RequestHandler::HandleHeld(Peer& peer) {
  int count = 0;
  while (!peer.held.empty() && answers_.MayQueue(peer)) {
    const HeldMessage message = std::move(peer.held.front());
    peer.held.pop_front();
    state_.counters.Buffer(message.payload.size(), 0);
    ++count;
    HandleKept(peer, message);
  }
  return count;
}

}  // namespace quire::comm
