/// Shared state of the parts of one Exchange: the transport, the other ranks, the requests under
/// way, the threads that wait, and the counters.
///
/// Layer      comm
/// Threads    any
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "comm/exchange/call_table.h"
#include "comm/exchange/exchange.h"
#include "comm/exchange/message.h"
#include "comm/exchange/peer.h"
#include "comm/transport/transport.h"
#include "comm/transport/wait_set.h"

namespace quire::comm {

struct ExchangeCounters {
  std::atomic<uint64_t> requests_sent{0};
  std::atomic<uint64_t> requests_handled{0};
  std::atomic<uint64_t> frames_sent{0};
  std::atomic<uint64_t> bytes_sent{0};
  std::atomic<uint64_t> bytes_received{0};
  std::atomic<uint64_t> send_stalls{0};
  std::atomic<uint64_t> buffered_bytes{0};

  /// Records that a buffer grew or shrank from `before` to `now` bytes.
  void Buffer(uint64_t before, uint64_t now) {
    buffered_bytes.fetch_add(now - before, std::memory_order_relaxed);
  }
  /// Adds to a counter that only the polling thread changes.
  static void AddPolled(std::atomic<uint64_t>& counter, uint64_t count) {
    counter.store(counter.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  ExchangeStatistics Read() const;
};

struct ExchangeState {
  ExchangeState(std::unique_ptr<Transport> its_transport, const ExchangeOptions& its_options);

  /// As Exchange::CheckThread.
  Status CheckThread() const { return threads_allowed ? Status() : transport->CheckThread(); }
  /// CheckThread; kInvalidArgument also if `destination` is no rank, or a service asks.
  Status CheckUse(int destination) const;
  /// Returns kOutOfMemory: this rank could not receive a message of `bytes`. Without a text if
  /// there is no memory for it either.
  Status NoMemoryFor(uint64_t bytes) const;
  /// Hands one frame of a message to the transport, and counts it. As Transport::TrySend.
  Result<bool> TrySendFrame(const Peer& peer, const MessageHeader& header, Slice head, Slice body);

  const std::unique_ptr<Transport> transport;
  const ExchangeOptions options;
  const int rank;
  const int size;
  const bool threads_allowed;
  PeerTable peers;
  CallTable calls;
  WaitSet sleepers;
  ExchangeCounters counters;
};

}  // namespace quire::comm
