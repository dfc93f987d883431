/// The answers of this rank to other ranks: sent at once, or queued while there is no room.
///
/// Layer      comm
/// Encoding   docs/format/message.md
/// Threads    the polling thread; Limit: any
/// Invariants answers to one rank leave in the order of Put. No further answer is queued for a rank
///            while more than a window of answers to it waits, or for any rank while more than the
///            limit waits in all: MayQueue reports this before a request is handled.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "comm/exchange/exchange_state.h"

namespace quire::comm {

class AnswerQueue {
 public:
  explicit AnswerQueue(ExchangeState* state)
      : state_(*state), bytes_max_(state->options.answer_bytes_max) {}

  /// Returns whether an answer to `peer` may be queued if there is no room. Answers to this rank
  /// itself never need to.
  bool MayQueue(const Peer& peer) const;
  /// Answers a request of another rank, now or as soon as there is room. Takes the bytes of
  /// `*answer`. Throws std::bad_alloc: then nothing was sent.
  void Put(Peer& peer, uint64_t call, const Status& status, std::string* answer);
  /// Sends as many queued answers as there is room for.
  void Flush(Peer& peer);
  /// Drops the queued answers to a peer that failed.
  void Drop(Peer& peer);
  /// Limits the bytes of all queued answers from now on.
  void Limit(uint64_t bytes_max) { bytes_max_.store(bytes_max); }

 private:
  void Remove(Peer& peer, uint64_t bytes);

  ExchangeState& state_;
  std::atomic<uint64_t> bytes_max_;
  uint64_t bytes_ = 0;  ///< of all peers
};

}  // namespace quire::comm
