/// Handles requests and signals: runs their services at once, or stores the messages until it can:
/// while too many answers to their sender wait (`held`), until their channel has a service
/// (`unserved`), or because a service has not finished what came before (`unfinished`).
///
/// Layer      comm
/// Source     PapyrusKV, SC17, section 2.4 (message handler)
/// Threads    the polling thread, except the functions marked "any thread"
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
  /// The interval at which unfinished requests are continued: no event shows when they can finish.
  static constexpr uint64_t kAskAgainNs = 1'000'000;

  /// The owner of the calls and waits that ranks have with each other.
  class Host {
   public:
    virtual ~Host() = default;
    /// Ends the handling of this peer's messages and all waits for it.
    virtual void FailPeer(Peer& peer, const Status& why) = 0;
    /// Ends the request with that number from this rank to `peer`: its answer has come. `lost`: as
    /// in Outcome.
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
  /// Schedules the next continuation of unfinished requests, kAskAgainNs from now.
  void AskAgain();
  /// Called when there is room for messages to `peer`.
  void OnRoom(Peer& peer);
  /// Drops all messages of a peer that failed.
  void Drop(Peer& peer);

  // Any thread.
  /// As those of Exchange.
  void Serve(uint32_t channel, Service service);
  void ServePatiently(uint32_t channel, uint32_t order, PatientService service);
  /// Takes a message from this rank to itself. Throws std::bad_alloc.
  void AddOwn(HeldMessage message);
  /// Returns whether requests are unfinished: then some thread must poll every kAskAgainNs.
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

  std::string answer_;                  ///< the answer of the running service
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
