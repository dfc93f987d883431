#include "comm/exchange/exchange_state.h"

#include <string>
#include <utility>

#include "base/core/out_of_memory.h"
#include "comm/transport/in_service.h"

namespace quire::comm {

ExchangeStatistics ExchangeCounters::Read() const {
  ExchangeStatistics now;
  now.requests_sent = requests_sent.load(std::memory_order_relaxed);
  now.requests_handled = requests_handled.load(std::memory_order_relaxed);
  now.frames_sent = frames_sent.load(std::memory_order_relaxed);
  now.bytes_sent = bytes_sent.load(std::memory_order_relaxed);
  now.bytes_received = bytes_received.load(std::memory_order_relaxed);
  now.send_stalls = send_stalls.load(std::memory_order_relaxed);
  now.buffered_bytes = buffered_bytes.load(std::memory_order_relaxed);
  return now;
}

ExchangeState::ExchangeState(std::unique_ptr<Transport> its_transport,
                             const ExchangeOptions& its_options)
    : transport(std::move(its_transport)),
      options(its_options),
      rank(transport->rank()),
      size(transport->size()),
      threads_allowed(transport->AllowsThreads()),
      peers(size),
      sleepers(transport.get()) {}

Status ExchangeState::CheckUse(int destination) const {
  if (destination < 0 || destination >= size) {
    return Status(Code::kInvalidArgument, "there is no rank " + std::to_string(destination) +
                                              "; ranks are 0 to " + std::to_string(size - 1));
  }
  if (InService()) {
    return Status(Code::kInvalidArgument,
                  "a service must not send requests or signals, nor take part in collectives");
  }
  return CheckThread();
}

Status ExchangeState::NoMemoryFor(uint64_t bytes) const {
  return base::OrOutOfMemory([&] {
    return Status(Code::kOutOfMemory, "rank " + std::to_string(rank) +
                                          " had no memory to receive a message of " +
                                          std::to_string(bytes) + " bytes");
  });
}

Result<bool> ExchangeState::TrySendFrame(const Peer& peer, const MessageHeader& header, Slice head,
                                         Slice body) {
  char encoded[kMessageHeaderBytes];
  EncodeMessageHeader(header, encoded);
  const FrameParts frame{Slice(encoded, sizeof encoded), head, body};
  Result<bool> sent = transport->TrySend(peer.rank, frame);
  if (sent.ok() && *sent) {
    counters.frames_sent.fetch_add(1, std::memory_order_relaxed);
    counters.bytes_sent.fetch_add(frame.size(), std::memory_order_relaxed);
  }
  return sent;
}

}  // namespace quire::comm
