/// Handles requests and signals. Services do it now, or the messages are kept until they can: while
/// too many answers to their sender wait (`held`), until their channel has a service (`unserved`),
/// or because a service has not finished what came before (`unfinished`).
///
/// Layer      comm
/// Source     PapyrusKV, SC17, section 2.4 (message handler)
/// Threads    the polling thread, but for the functions that say "any thread"
/// Invariants as Exchange says: order, bounds, and that no service waits
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "comm/exchange/answer_queue.h"
#include "comm/exchange/exchange_state.h"
#include "comm/exchange/service_table.h"
#include "comm/transport/mailbox.h"

namespace quire::comm {

class RequestHandler {
 public:
  /// How often unfinished requests are asked to go on: no event says when they can.
  static constexpr uint64_t kAskAgainNs = 1'000'000;

  /// Ends what the ranks have under way with each other.
  class Host {
   public:
    virtual ~Host() = default;
    /// Nothing more is handled of this peer, nor waited for.
    virtual void FailPeer(Peer& peer, const Status& why) = 0;
    /// The request with that number from this rank to `peer` has its answer. `lost`: as in Outcome.
    virtual void EndCall(Peer& peer, uint64_t number, Status status, std::string answer,
                         bool lost) = 0;
  };

  RequestHandler(ExchangeState* state, Host* host)
      : state_(*state), host_(*host), answers_(state) {}

  /// Handles a request or a signal, or keeps it. Throws std::bad_alloc: it was not handled.
  void Handle(Peer& peer, const MessageHeader& header, Slice payload);
  /// Answers a request that was lost for want of memory with `why`; a lost signal fails its sender.
  void Refuse(Peer& peer, const MessageHeader& header, const Status& why);
  /// Handles the kept messages that can be handled by now; returns how many. Throws
  /// std::bad_alloc.
  int HandleDue();
  /// Unfinished requests are asked to go on, kAskAgainNs from now.
  void AskAgain();
  /// There is room for messages to `peer`.
  void OnRoom(Peer& peer);
  /// Forgets all of a peer that failed.
  void Drop(Peer& peer);

  // Any thread.
  /// As those of Exchange.
  void Serve(uint32_t channel, Service service);
  void ServePatiently(uint32_t channel, uint32_t order, PatientService service);
  /// Takes a message from this rank to itself. Throws std::bad_alloc.
  void AddOwn(HeldMessage message);
  /// True while requests are unfinished: some thread must poll every kAskAgainNs.
  bool has_unfinished() const { return has_unfinished_.load(std::memory_order_acquire); }
  void LimitAnswers(uint64_t bytes_max) { answers_.Limit(bytes_max); }
  /// Its address is the key of the threads that wait for signals.
  SignalBox& signals() { return signals_; }

 private:
  void HandleNow(Peer& peer, const HeldMessage& message);
  void HandleKept(Peer& peer, const HeldMessage& message);
  void HandleRequest(Peer& peer, uint32_t channel, uint64_t call, Slice payload);
  void HandleSignal(Peer& peer, int signal);
  void SendAnswer(Peer& peer, uint64_t call, const Status& status, std::string* answer);
  void PutAnswer(Peer& peer, uint64_t call, const Status& status, std::string* answer);

  std::list<UnfinishedMessage> PlaceForUnfinished(Peer& peer);
  void KeepUnfinished(Peer& peer, std::list<UnfinishedMessage> place);
  static bool MustFollow(const Peer& peer, uint32_t order);
  bool FinishOne(Peer& peer, UnfinishedMessage* unfinished);

  bool MustHold(const Peer& peer) const;
  void Hold(Peer& peer, const MessageHeader& header, Slice payload);
  void ListHeld(Peer& peer);
  static bool HasUnserved(const Peer& peer, uint32_t channel);
  void KeepUnserved(Peer& peer, uint32_t channel, uint64_t call, Slice payload);
  void HoldServed();

  void Defer();
  int HandleDeferred();
  int HandleAllHeld();
  int HandleHeld(Peer& peer);
  int HandleUnfinished();
  int HandleUnfinishedOf(Peer& peer);
  int HandleOwn();

  ExchangeState& state_;
  Host& host_;
  AnswerQueue answers_;
  ServiceTable services_;
  SignalBox signals_;

  std::string answer_;                  ///< what the running service answers
  std::vector<Peer*> held_list_;        ///< peers whose requests are held
  std::vector<Peer*> unserved_list_;    ///< peers whose requests wait for a service
  std::vector<Peer*> unfinished_list_;  ///< peers with unfinished requests
  uint64_t ask_again_ns_ = 0;           ///< when those are asked to go on; 0: never
  std::atomic<bool> has_unfinished_{false};
  std::atomic<bool> deferred_{false};  ///< HandleDeferred has something to do

  std::mutex own_mutex_;
  std::vector<HeldMessage> own_;  ///< from this rank to itself
};

}  // namespace quire::comm
