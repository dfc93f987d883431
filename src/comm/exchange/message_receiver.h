/// Receives frames and joins them to messages. Requests and signals go to the RequestHandler,
/// answers end calls, and parts of collectives are stored for the thread that waits for them.
///
/// Layer      comm
/// Source     PapyrusKV, SC17, section 2.4 (message handler)
/// Encoding   docs/format/message.md
/// Threads    the polling thread; requests() and parts(): any
#pragma once

#include <cstdint>
#include <string>

#include "comm/exchange/exchange_state.h"
#include "comm/exchange/request_handler.h"
#include "comm/transport/mailbox.h"
#include "comm/transport/transport.h"

namespace quire::comm {

class MessageReceiver final : private FrameSink, private RequestHandler::Host {
 public:
  explicit MessageReceiver(ExchangeState* state) : state_(*state), requests_(state, this) {}

  /// Handles arrived frames, and those stored messages that can be handled now; returns how many.
  /// Throws nothing: if memory runs out, messages of any rank may be lost, so all ranks count as
  /// failed.
  int Poll();
  RequestHandler& requests() { return requests_; }
  /// Its address is the key of the thread that waits for parts.
  CollectiveBox& parts() { return parts_; }

 private:
  void OnFrame(int source, Slice frame) override;
  void OnPeerFailed(int source, const Status& why) override;
  void OnRoom(int destination) override;
  void FailPeer(Peer& peer, const Status& why) override;
  void EndCall(Peer& peer, uint64_t number, Status status, std::string answer, bool lost) override;
  void TakeFrame(Peer& peer, Slice frame);
  void HandleMessage(Peer& peer, const MessageHeader& header, Slice payload, std::string* owned);
  void KeepMessage(Peer& peer, const MessageHeader& header, Slice payload, std::string* owned);
  void HandleLost(Peer& peer, const MessageHeader& header);
  void CompleteCall(Peer& peer, const MessageHeader& header, Slice payload, std::string* owned);
  void LoseAnswer(Peer& peer, const MessageHeader& header, const Status& why);
  void FailAll(const Status& why);

  ExchangeState& state_;
  RequestHandler requests_;
  CollectiveBox parts_;
  std::string spare_;  ///< memory for the next request of many frames
};

}  // namespace quire::comm
