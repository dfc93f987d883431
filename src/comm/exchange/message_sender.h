/// Sends whole messages to other ranks, and waits for room.
///
/// Layer      comm
/// Threads    any; the messages of two threads to one rank follow one another, frame by frame
#pragma once

#include <cstdint>

#include "comm/exchange/exchange_state.h"
#include "comm/exchange/progress_engine.h"

namespace quire::comm {

class MessageSender {
 public:
  MessageSender(ExchangeState* state, ProgressEngine* progress)
      : state_(*state), progress_(*progress) {}

  /// Reserves `bytes` of the window for requests to `peer`; waits for its turn and for room. The
  /// answer releases them (Peer::ReleaseWindow).
  Status AcquireWindow(Peer& peer, uint64_t bytes);
  /// Sends one message, `head` and `body` joined. `deadline_ns` as in WaitSpec.
  Status Send(Peer& peer, MessageHeader header, Slice head, Slice body, uint64_t deadline_ns);

 private:
  class Sending;
  Status SendFrames(Peer& peer, MessageHeader header, Slice head, Slice body, uint64_t deadline_ns);

  ExchangeState& state_;
  ProgressEngine& progress_;
};

}  // namespace quire::comm
