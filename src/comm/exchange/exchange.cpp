#include "comm/exchange/exchange.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/out_of_memory.h"
#include "base/scope_exit.h"
#include "base/thread.h"
#include "comm/exchange/exchange_impl.h"
#include "comm/transport/in_service.h"

namespace quire::comm {
namespace {

// What a request takes of the window beside its bytes, so that empty ones are bounded too.
constexpr uint64_t kRequestOverheadBytes = 64;
constexpr int kProgressPollsMax = 8;

// The part [offset, offset + size) of `head` and `body` joined.
void Cut(Slice head, Slice body, uint64_t offset, uint64_t size, Slice* head_part,
         Slice* body_part) {
  *head_part = offset < head.size() ? head.substr(offset, size) : Slice();
  const uint64_t rest = size - head_part->size();
  const uint64_t body_offset = offset + head_part->size() - head.size();
  *body_part = rest == 0 ? Slice() : body.substr(body_offset, rest);
}

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
    : transport_(std::move(transport)),
      options_(options),
      answer_bytes_max_(options.answer_bytes_max),
      rank_(transport_->rank()),
      size_(transport_->size()),
      threads_allowed_(transport_->AllowsThreads()),
      group_(threads_allowed_ ? nullptr : transport_->progress_group()),
      peers_(size_),
      sleepers_(transport_.get()),
      caller_spin_(transport_->spin_ns()) {
  note_.reserve(kPlainPartBytes);
  if (threads_allowed_ && options_.handler_thread) {
    Result<std::thread> handler = base::StartThread("quire-handler", [this] { HandlerLoop(); });
    handler_status_ = handler.status();
    if (handler.ok()) handler_ = std::move(*handler);
  }
  if (group_ != nullptr) group_->Join(this, [this] { TryPoll(); });
}

ExchangeImpl::~ExchangeImpl() {
  if (group_ != nullptr) group_->Leave(this);
  stop_.store(true, std::memory_order_release);
  if (!handler_.joinable()) return;
  transport_->Wake(Waiter::kHandler);
  handler_.join();
}

Status ExchangeImpl::CheckUse(int destination) const {
  if (destination < 0 || destination >= size_) {
    return Status(Code::kInvalidArgument, "there is no rank " + std::to_string(destination) +
                                              "; ranks are 0 to " + std::to_string(size_ - 1));
  }
  if (InService()) {
    return Status(Code::kInvalidArgument,
                  "a service must not send requests or signals, nor take part in collectives");
  }
  return CheckThread();
}

void ExchangeImpl::Serve(uint32_t channel, Service service) {
  if (service == nullptr) {
    services_.TakeAway(channel);
  } else {
    services_.Set(channel, std::move(service));
  }
  LookAtDeferred();
}

void ExchangeImpl::ServePatiently(uint32_t channel, uint32_t order, PatientService service) {
  services_.SetPatient(channel, order, std::move(service));
  LookAtDeferred();
}

void ExchangeImpl::LookAtDeferred() {
  deferred_.store(true, std::memory_order_release);
  transport_->Wake(Waiter::kHandler);
  sleepers_.NotifyAll();
}

Status ExchangeImpl::AcquireWindow(Peer& peer, uint64_t bytes) {
  WindowQueue::Place place;
  bool waits = false;
  auto acquire = [&] {
    uint64_t taken = peer.outstanding_bytes.load(std::memory_order_relaxed);
    do {
      if (peer.failed.load(std::memory_order_acquire)) return true;
      // A message larger than the window goes alone.
      if (taken != 0 && taken + bytes > options_.window_bytes) return false;
      if (waits ? !peer.window_queue.IsFirst(place) : !peer.window_queue.empty()) return false;
    } while (!peer.outstanding_bytes.compare_exchange_weak(taken, taken + bytes,
                                                           std::memory_order_acq_rel));
    return true;
  };
  if (!acquire()) {
    counters_.send_stalls.fetch_add(1, std::memory_order_relaxed);
    peer.window_queue.Join(&place);
    waits = true;
    const base::ScopeExit leaves([&] {
      peer.window_queue.Leave(&place);
      sleepers_.Notify(&peer);  // the next one may go
    });
    WaitSpec spec{&peer, peer.rank, "answers to earlier requests, to send more"};
    QUIRE_RETURN_IF_ERROR(WaitUntil(spec, Condition(acquire)));
  }
  return peer.failed.load(std::memory_order_acquire) ? peer.Failure() : Status();
}

void ExchangeImpl::ReleaseWindow(Peer& peer, uint64_t bytes) {
  peer.outstanding_bytes.fetch_sub(bytes, std::memory_order_acq_rel);
}

Result<bool> ExchangeImpl::TrySendFrame(Peer& peer, const MessageHeader& header, Slice head,
                                        Slice body) {
  char encoded[kMessageHeaderBytes];
  EncodeMessageHeader(header, encoded);
  const FrameParts frame{Slice(encoded, sizeof encoded), head, body};
  Result<bool> sent = transport_->TrySend(peer.rank, frame);
  if (sent.ok() && *sent) {
    counters_.frames_sent.fetch_add(1, std::memory_order_relaxed);
    counters_.bytes_sent.fetch_add(frame.size(), std::memory_order_relaxed);
  }
  return sent;
}

Status ExchangeImpl::SendFrames(Peer& peer, MessageHeader header, Slice head, Slice body,
                                uint64_t deadline_ns) {
  const uint64_t part_max = transport_->frame_bytes_max(peer.rank) - kMessageHeaderBytes;
  do {
    const uint64_t part = std::min(part_max, header.total_size - header.offset);
    Slice head_part;
    Slice body_part;
    Cut(head, body, header.offset, part, &head_part, &body_part);
    Status error;
    auto send = [&] {
      const Result<bool> sent = TrySendFrame(peer, header, head_part, body_part);
      if (!sent.ok()) error = sent.status();
      return !sent.ok() || *sent;
    };
    if (!send()) {
      counters_.send_stalls.fetch_add(1, std::memory_order_relaxed);
      WaitSpec spec{&peer, peer.rank, "room to send", deadline_ns};
      QUIRE_RETURN_IF_ERROR(WaitUntil(spec, Condition(send)));
    }
    QUIRE_RETURN_IF_ERROR(error);
    header.offset += part;
  } while (header.offset < header.total_size);
  return Status();
}

// Ends a thread's right to send to a peer, also where the transport throws.
class ExchangeImpl::Sending {
 public:
  Sending(ExchangeImpl* exchange, Peer* peer) : exchange_(exchange), peer_(peer) {}
  ~Sending() {
    peer_->sending.store(false, std::memory_order_release);
    exchange_->sleepers_.Notify(peer_);
  }
  Sending(const Sending&) = delete;
  Sending& operator=(const Sending&) = delete;

 private:
  ExchangeImpl* const exchange_;
  Peer* const peer_;
};

Status ExchangeImpl::SendMessage(Peer& peer, MessageHeader header, Slice head, Slice body,
                                 uint64_t deadline_ns) {
  auto acquire = [&] { return !peer.sending.exchange(true, std::memory_order_acquire); };
  if (!acquire()) {
    WaitSpec spec{&peer, peer.rank, "another thread's message to be sent", deadline_ns};
    QUIRE_RETURN_IF_ERROR(WaitUntil(spec, Condition(acquire)));
  }
  header.total_size = head.size() + body.size();
  const Sending sending(this, &peer);
  return SendFrames(peer, header, head, body, deadline_ns);
}

Status ExchangeImpl::SendToSelf(MessageKind kind, uint32_t channel, uint64_t call, Slice head,
                                Slice body) {
  HeldMessage message{kind, channel, call, {}};
  message.payload.reserve(head.size() + body.size());
  message.payload.append(head).append(body);
  Buffer(0, message.payload.size());
  {
    const std::lock_guard<std::mutex> lock(own_mutex_);
    own_.push_back(std::move(message));
  }
  LookAtDeferred();
  return Status();
}

Result<std::shared_ptr<PendingCall>> ExchangeImpl::StartCall(int destination, uint32_t channel,
                                                             Slice head, Slice body,
                                                             PendingCall::Callback then) {
  QUIRE_RETURN_IF_ERROR(CheckUse(destination));
  const uint64_t total = head.size() + body.size();
  if (total > options_.message_bytes_max) {
    return Status(Code::kInvalidArgument, "a request of " + std::to_string(total) +
                                              " bytes; messages may have at most " +
                                              std::to_string(options_.message_bytes_max));
  }
  Peer& peer = peers_.Get(destination);
  const uint64_t window_bytes = total + kRequestOverheadBytes;
  auto call = std::make_shared<PendingCall>(destination, window_bytes, std::move(then));
  QUIRE_RETURN_IF_ERROR(AcquireWindow(peer, window_bytes));
  MessageHeader header;
  header.channel = channel;
  const Status added = base::OrOutOfMemory([&] {
    header.call = calls_.Add(call);
    return Status();
  });
  if (!added.ok()) {
    ReleaseWindow(peer, window_bytes);
    sleepers_.Notify(&peer);
    return added;
  }
  Status status = base::OrOutOfMemory([&] {
    if (destination != rank_) return SendMessage(peer, header, head, body, 0);
    return SendToSelf(MessageKind::kRequest, channel, header.call, head, body);
  });
  // A peer that failed before the call was in the table has not ended it.
  if (status.ok() && peer.failed.load(std::memory_order_acquire)) status = peer.Failure();
  if (!status.ok() && calls_.Take(header.call) != nullptr) {
    ReleaseWindow(peer, window_bytes);
    sleepers_.Notify(&peer);
    return status;
  }  // else the peer's failure has ended the call, which tells who waits for it
  counters_.requests_sent.fetch_add(1, std::memory_order_relaxed);
  PollInCall();
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
    QUIRE_RETURN_IF_ERROR(CheckUse(pending->destination()));
    auto done = [&] { return pending->Done(); };
    WaitSpec spec{pending, pending->destination(), "an answer"};
    QUIRE_RETURN_IF_ERROR(WaitUntil(spec, Condition(done)));
  }
  return pending->TakeOutcome(answer);
}

Status ExchangeImpl::Await(const void* key, const char* what, const std::function<int()>& missing) {
  QUIRE_RETURN_IF_ERROR(CheckThread());
  WaitSpec spec{key, -1, what};
  auto ask = [&] { return missing(); };
  QUIRE_RETURN_IF_ERROR(AwaitMissing(spec, Missing(ask)));
  return spec.peer == kNobody ? Status() : peers_.Get(spec.peer).Failure();
}

Status ExchangeImpl::PeerStatus(int rank) {
  if (rank == rank_) return Status();
  const Peer& peer = peers_.Get(rank);
  if (!peer.failed.load(std::memory_order_acquire)) {
    if (transport_->Alive(rank)) return Status();
    Progress();  // it says so once all that came before is handled
  }
  return peer.failed.load(std::memory_order_acquire) ? peer.Failure() : Status();
}

void ExchangeImpl::Progress() {
  if (!CheckThread().ok()) return;
  for (int i = 0; i < kProgressPollsMax && TryPoll() > 0; ++i) {
  }
  if (!has_handler_thread()) sleepers_.HandOver();
  PollGroup();
}

Status ExchangeImpl::SignalTo(int destination, int signal) {
  QUIRE_RETURN_IF_ERROR(CheckUse(destination));
  const auto channel = static_cast<uint32_t>(signal);
  if (destination == rank_) return SendToSelf(MessageKind::kSignal, channel, 0, {}, {});
  Peer& peer = peers_.Get(destination);
  if (peer.failed.load(std::memory_order_acquire)) return peer.Failure();
  MessageHeader header;
  header.kind = MessageKind::kSignal;
  header.channel = channel;
  return SendMessage(peer, header, {}, {}, 0);
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
  for (int source : ranks) QUIRE_RETURN_IF_ERROR(CheckUse(source));
  auto missing = [&] {
    int rank = kNobody;
    return signals_.TakeAll(signal, ranks, &rank) ? kNobody : rank;
  };
  return Await(&signals_, "a signal", std::ref(missing));
}

ExchangeStatistics ExchangeImpl::Statistics() const {
  ExchangeStatistics now;
  now.requests_sent = counters_.requests_sent.load(std::memory_order_relaxed);
  now.requests_handled = counters_.requests_handled.load(std::memory_order_relaxed);
  now.frames_sent = counters_.frames_sent.load(std::memory_order_relaxed);
  now.bytes_sent = counters_.bytes_sent.load(std::memory_order_relaxed);
  now.bytes_received = counters_.bytes_received.load(std::memory_order_relaxed);
  now.send_stalls = counters_.send_stalls.load(std::memory_order_relaxed);
  now.buffered_bytes = counters_.buffered_bytes.load(std::memory_order_relaxed);
  return now;
}

}  // namespace quire::comm
