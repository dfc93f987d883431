#include "comm/exchange/exchange.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/core/out_of_memory.h"
#include "comm/exchange/exchange_impl.h"

namespace quire::comm {
namespace {

// Bytes of the window that a request takes in addition to its own, so that empty ones are bounded,
// too.
constexpr uint64_t kRequestOverheadBytes = 64;

}  // namespace

std::unique_ptr<Exchange> Exchange::Create(std::unique_ptr<Transport> transport,
                                           const ExchangeOptions& options) {
  return std::make_unique<ExchangeImpl>(std::move(transport), options);
}

Status Exchange::Ask(int destination, uint32_t channel, Slice head, Slice body,
                     std::string* answer) {
  Result<std::shared_ptr<Call>> call = Start(destination, channel, head, body);
  if (!call.ok()) return call.status();
  return Wait(*call, answer);
}

ExchangeImpl::ExchangeImpl(std::unique_ptr<Transport> transport, const ExchangeOptions& options)
    : state_(std::move(transport), options),
      receiver_(&state_),
      progress_(&state_, &receiver_),
      sender_(&state_, &progress_),
      collectives_(&state_, &progress_, &sender_, &receiver_.parts()) {}

Status ExchangeImpl::SendRequest(Peer& peer, const MessageHeader& header, Slice head, Slice body) {
  if (peer.rank != state_.rank) return sender_.Send(peer, header, head, body, 0);
  HeldMessage message{MessageKind::kRequest, header.channel, header.call, {}};
  message.payload.reserve(head.size() + body.size());
  message.payload.append(head).append(body);
  receiver_.requests().AddOwn(std::move(message));
  return Status();
}

Result<std::shared_ptr<PendingCall>> ExchangeImpl::StartCall(int destination, uint32_t channel,
                                                             Slice head, Slice body,
                                                             PendingCall::Callback then) {
  QUIRE_RETURN_IF_ERROR(state_.CheckUse(destination));
  const uint64_t total = head.size() + body.size();
  if (total > state_.options.message_bytes_max) {
    return Status(Code::kInvalidArgument, "a request of " + std::to_string(total) +
                                              " bytes; messages may have at most " +
                                              std::to_string(state_.options.message_bytes_max));
  }
  Peer& peer = state_.peers.Get(destination);
  const uint64_t window_bytes = total + kRequestOverheadBytes;
  auto call = std::make_shared<PendingCall>(destination, window_bytes, std::move(then));
  QUIRE_RETURN_IF_ERROR(sender_.AcquireWindow(peer, window_bytes));
  MessageHeader header;
  header.channel = channel;
  const Status added = base::OrOutOfMemory([&] {
    header.call = state_.calls.Add(call);
    return Status();
  });
  if (!added.ok()) {
    peer.ReleaseWindow(window_bytes);
    state_.sleepers.Notify(&peer);
    return added;
  }
  Status status = base::OrOutOfMemory([&] { return SendRequest(peer, header, head, body); });
  // If the peer failed before the call was in the table, its failure has not ended the call.
  if (status.ok() && peer.failed.load(std::memory_order_acquire)) status = peer.Failure();
  if (!status.ok() && state_.calls.Take(header.call) != nullptr) {
    peer.ReleaseWindow(window_bytes);
    state_.sleepers.Notify(&peer);
    return status;
  }  // else the peer's failure has ended the call, and its waiter learns of it
  state_.counters.requests_sent.fetch_add(1, std::memory_order_relaxed);
  progress_.PollInCall();
  return call;
}

Result<std::shared_ptr<Call>> ExchangeImpl::Start(int destination, uint32_t channel, Slice head,
                                                  Slice body) {
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<Call> call,
                         StartCall(destination, channel, head, body, nullptr));
  return call;
}

Status ExchangeImpl::StartThen(int destination, uint32_t channel, Slice head, Slice body,
                               std::function<void(const Outcome& outcome)> done) {
  return StartCall(destination, channel, head, body, std::move(done)).status();
}

Status ExchangeImpl::Wait(const std::shared_ptr<Call>& call, std::string* answer) {
  auto* const pending = static_cast<PendingCall*>(call.get());
  if (!pending->Done()) {
    QUIRE_RETURN_IF_ERROR(state_.CheckUse(pending->destination()));
    auto done = [&] { return pending->Done(); };
    WaitSpec spec{pending, pending->destination(), "an answer"};
    QUIRE_RETURN_IF_ERROR(progress_.WaitUntil(spec, Condition(done)));
  }
  return pending->TakeOutcome(answer);
}

Status ExchangeImpl::Await(const void* key, const char* what, const std::function<int()>& missing) {
  QUIRE_RETURN_IF_ERROR(state_.CheckThread());
  WaitSpec spec{key, -1, what};
  auto ask = [&] { return missing(); };
  QUIRE_RETURN_IF_ERROR(progress_.AwaitMissing(spec, Missing(ask)));
  return spec.peer == kNobody ? Status() : state_.peers.Get(spec.peer).Failure();
}

Status ExchangeImpl::PeerStatus(int rank) {
  if (rank == state_.rank) return Status();
  const Peer& peer = state_.peers.Get(rank);
  if (!peer.failed.load(std::memory_order_acquire)) {
    if (state_.transport->Alive(rank)) return Status();
    progress_.Progress();  // reports the failure when all earlier messages are handled
  }
  return peer.failed.load(std::memory_order_acquire) ? peer.Failure() : Status();
}

Status ExchangeImpl::SignalTo(int destination, int signal) {
  QUIRE_RETURN_IF_ERROR(state_.CheckUse(destination));
  const auto channel = static_cast<uint32_t>(signal);
  if (destination == state_.rank) {
    receiver_.requests().AddOwn({MessageKind::kSignal, channel, 0, {}});
    return Status();
  }
  Peer& peer = state_.peers.Get(destination);
  if (peer.failed.load(std::memory_order_acquire)) return peer.Failure();
  MessageHeader header;
  header.kind = MessageKind::kSignal;
  header.channel = channel;
  return sender_.Send(peer, header, {}, {}, 0);
}

Status ExchangeImpl::Notify(int signal, const std::vector<int>& ranks) {
  Status first_error;
  for (int destination : ranks) {
    const Status status = SignalTo(destination, signal);
    if (!status.ok() && first_error.ok()) {
      first_error = status.WithContext("signal " + std::to_string(signal) + " to rank " +
                                       std::to_string(destination));
    }
  }
  return first_error;
}

Status ExchangeImpl::WaitSignal(int signal, const std::vector<int>& ranks) {
  for (int source : ranks) QUIRE_RETURN_IF_ERROR(state_.CheckUse(source));
  auto missing = [&] {
    int rank = kNobody;
    return receiver_.requests().signals().TakeAll(signal, ranks, &rank) ? kNobody : rank;
  };
  return Await(&receiver_.requests().signals(), "a signal", std::ref(missing));
}

}  // namespace quire::comm
