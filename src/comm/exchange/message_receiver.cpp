#include "comm/exchange/message_receiver.h"

#include <memory>
#include <utility>

#include "base/core/out_of_memory.h"

namespace quire::comm {
namespace {

constexpr int kFramesPerPoll = 16;
// A larger buffer is returned to the system and not kept for the next request.
constexpr uint64_t kSpareBytesMax = 4 << 20;

}  // namespace

int MessageReceiver::Poll() {
  int count = 0;
  const Status polled = base::OrOutOfMemory([&] {
    count = state_.transport->Poll(*this, kFramesPerPoll);
    count += requests_.HandleDue();
    return Status();
  });
  if (!polled.ok()) {
    FailAll(polled);
    requests_.AskAgain();  // this rank's own requests may be left, and are handled all the same
  }
  return count;
}

// If there is no memory for a frame, its message fails, or, if that is unknown, its sender: no rank
// may wait for a lost message.
void MessageReceiver::OnFrame(int source, Slice frame) {
  Peer& peer = state_.peers.Get(source);
  if (!base::OrOutOfMemory([&] {
         TakeFrame(peer, frame);
         return Status();
       }).ok()) {
    FailPeer(peer, base::OutOfMemory());
  }
}

void MessageReceiver::TakeFrame(Peer& peer, Slice frame) {
  if (peer.failed.load(std::memory_order_relaxed)) return;
  ExchangeCounters::AddPolled(state_.counters.bytes_received, frame.size());
  Slice part;
  const Result<MessageHeader> header =
      DecodeMessageHeader(frame, state_.options.message_bytes_max + UINT32_MAX, &part);
  if (!header.ok()) return FailPeer(peer, header.status());
  const bool is_answer = header->kind == MessageKind::kAnswer;
  MessageJoiner& joiner = is_answer ? peer.answers : peer.requests;
  const uint64_t before = joiner.buffered_bytes();
  if (header->offset == 0 && part.size() == header->total_size) {
    joiner.Drop();
    state_.counters.Buffer(before, 0);
    return HandleMessage(peer, *header, part, nullptr);
  }
  if (header->offset == 0 && !is_answer) joiner.Lend(std::move(spare_));
  const Result<bool> whole = joiner.Add(*header, part);
  state_.counters.Buffer(before, joiner.buffered_bytes());
  if (!whole.ok()) return FailPeer(peer, whole.status());
  if (!*whole) return;
  const bool lost = joiner.out_of_memory();
  std::string payload = joiner.Take();
  if (lost) return HandleLost(peer, *header);
  HandleMessage(peer, *header, payload, &payload);
  if (payload.capacity() <= kSpareBytesMax) spare_ = std::move(payload);
}

void MessageReceiver::HandleLost(Peer& peer, const MessageHeader& header) {
  const Status why = state_.NoMemoryFor(header.total_size);
  switch (header.kind) {
    case MessageKind::kRequest:
    case MessageKind::kSignal:
      return requests_.Refuse(peer, header, why);
    case MessageKind::kAnswer:
      return LoseAnswer(peer, header, why);
    case MessageKind::kCollective:
      if (!parts_.Add(peer.rank, header.call, {})) return FailPeer(peer, why);
      state_.sleepers.Notify(&parts_);
  }
}

void MessageReceiver::HandleMessage(Peer& peer, const MessageHeader& header, Slice payload,
                                    std::string* owned) {
  const Status kept = base::OrOutOfMemory([&] {
    KeepMessage(peer, header, payload, owned);
    return Status();
  });
  if (!kept.ok()) HandleLost(peer, header);
}

// If it throws std::bad_alloc, the message has not been handled.
void MessageReceiver::KeepMessage(Peer& peer, const MessageHeader& header, Slice payload,
                                  std::string* owned) {
  switch (header.kind) {
    case MessageKind::kRequest:
    case MessageKind::kSignal:
      return requests_.Handle(peer, header, payload);
    case MessageKind::kAnswer:
      return CompleteCall(peer, header, payload, owned);
    case MessageKind::kCollective:
      if (!parts_.Add(peer.rank, header.call, payload)) {
        return FailPeer(peer, Status(Code::kCorruption,
                                     "received more parts of collectives than "
                                     "one rank can have under way"));
      }
      state_.sleepers.Notify(&parts_);
  }
}

void MessageReceiver::CompleteCall(Peer& peer, const MessageHeader& header, Slice payload,
                                   std::string* owned) {
  const uint32_t text_size = header.channel;
  Status status;
  if (header.code != Code::kOk) {
    status = text_size == 0 ? Status(header.code)
                            : Status(header.code, std::string(payload.substr(0, text_size)));
  }
  if (owned != nullptr && text_size == 0) {
    EndCall(peer, header.call, std::move(status), std::move(*owned), /*lost=*/false);
  } else {
    EndCall(peer, header.call, std::move(status), std::string(payload.substr(text_size)),
            /*lost=*/false);
  }
}

// Ends a call whose answer was lost. If the request failed, the call fails with its code, without
// the text. If it succeeded, the call does not succeed, because its answer is lost; but the caller
// must learn that the request was served.
void MessageReceiver::LoseAnswer(Peer& peer, const MessageHeader& header, const Status& why) {
  if (header.code != Code::kOk)
    return EndCall(peer, header.call, Status(header.code), {}, /*lost=*/false);
  EndCall(peer, header.call, why, {}, /*lost=*/true);
}

void MessageReceiver::EndCall(Peer& peer, uint64_t number, Status status, std::string answer,
                              bool lost) {
  const std::shared_ptr<PendingCall> call = state_.calls.Take(number);
  if (call == nullptr || call->destination() != peer.rank) {
    return FailPeer(peer, Status(Code::kCorruption,
                                 "received an answer to a request that was "
                                 "not sent to its sender"));
  }
  if (lost) call->LoseAnswer();
  call->Complete(std::move(status), std::move(answer));
  peer.ReleaseWindow(call->window_bytes());
  state_.sleepers.Notify(call.get(), &peer);
}

void MessageReceiver::OnRoom(int destination) {
  Peer& peer = state_.peers.Get(destination);
  requests_.OnRoom(peer);  // answers first: other ranks may wait for the thread that waits for them
  state_.sleepers.Notify(&peer);
}

void MessageReceiver::OnPeerFailed(int source, const Status& why) {
  FailPeer(state_.peers.Get(source), why);
}

void MessageReceiver::FailPeer(Peer& peer, const Status& why) {
  if (peer.failed.load(std::memory_order_relaxed)) return;
  peer.why_failed = why;
  peer.failed.store(true, std::memory_order_seq_cst);
  state_.counters.Buffer(peer.requests.buffered_bytes() + peer.answers.buffered_bytes(), 0);
  peer.requests.Drop();
  peer.answers.Drop();
  requests_.Drop(peer);
  const Status failure = peer.Failure();
  while (const std::shared_ptr<PendingCall> call = state_.calls.TakeOne(peer.rank)) {
    if (why.code() == Code::kOutOfMemory) call->LoseAnswer();
    call->Complete(failure, {});
    peer.ReleaseWindow(call->window_bytes());
  }
  state_.sleepers.NotifyAll();
}

void MessageReceiver::FailAll(const Status& why) {
  for (int rank = 0; rank < state_.size; ++rank) {
    if (rank == state_.rank) continue;
    static_cast<void>(base::OrOutOfMemory([&] {
      FailPeer(state_.peers.Get(rank), why);
      return Status();
    }));
  }
}

}  // namespace quire::comm
