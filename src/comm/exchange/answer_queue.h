/// The answers of this rank to others: sent at once, or kept while there is no room.
///
/// Layer      comm
/// Encoding   docs/format/message.md
/// Threads    the polling thread; Limit: any
/// Invariants answers to one rank leave in the order of Put. A rank to which more than a window of
///            them waits, and each rank while more than the limit waits in all, is given no further
///            answer: MayQueue says so before a request is handled.
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

  /// True if an answer to `peer` may have to wait for room. Those to this rank itself never do.
  bool MayQueue(const Peer& peer) const;
  /// Answers a request of another rank, now or as soon as there is room. Takes the bytes of
  /// `*answer`. Throws std::bad_alloc: then nothing was sent.
  void Put(Peer& peer, uint64_t call, const Status& status, std::string* answer);
  /// Sends what there is room for.
  void Flush(Peer& peer);
  /// Forgets what waits for a peer that failed.
  void Drop(Peer& peer);
  /// From now on at most so many bytes wait in all.
  void Limit(uint64_t bytes_max) { bytes_max_.store(bytes_max); }

 private:
  void Remove(Peer& peer, uint64_t bytes);

  ExchangeState& state_;
  std::atomic<uint64_t> bytes_max_;
  uint64_t bytes_ = 0;  ///< of all peers
};

}  // namespace quire::comm
