/// The Exchange over any transport.
///
/// A thread that waits becomes the leader if there is none: it polls, runs requested services, and
/// sleeps in the transport until something arrives, so that an answer costs one wake-up and no
/// hand-over between threads. Other waiting threads sleep on a word of their own. Without a leader,
/// the handler thread polls; without a handler thread, the next leader does.
///
/// exchange.cpp has the calls, exchange_wait.cpp waiting and polling, exchange_receive.cpp what
/// happens with what arrives, collective.cpp the collectives.
///
/// Layer      comm
/// Encoding   docs/format/message.md
/// Threads    as Exchange. Members marked "poller's" belong to the holder of poller_lock_.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/exchange/call_table.h"
#include "comm/exchange/exchange.h"
#include "comm/exchange/message.h"
#include "comm/exchange/peer.h"
#include "comm/exchange/service_table.h"
#include "comm/transport/adaptive_spin.h"
#include "comm/transport/mailbox.h"
#include "comm/transport/progress_group.h"
#include "comm/transport/transport.h"
#include "comm/transport/wait_set.h"

namespace quire::comm {

/// A reference to something that is asked again and again.
template <typename Answer>
class Question {
 public:
  template <typename F>
  explicit Question(F& asked)
      : object_(&asked), call_([](void* object) { return (*static_cast<F*>(object))(); }) {}
  Answer operator()() const { return call_(object_); }

 private:
  void* object_;
  Answer (*call_)(void*);
};
using Condition = Question<bool>;  ///< has it come true?
using Missing = Question<int>;     ///< which rank's part is missing, or kNobody

/// The condition that a thread waits for.
struct WaitSpec {
  const void* key = nullptr;  ///< Notify(key) says that it may have come true
  int peer = -1;              ///< the rank that must be alive for it; may change while waiting
  const char* what = "";      ///< for the error text: "an answer"
  uint64_t deadline_ns = 0;   ///< 0: timeout_ms from the beginning of the wait
};

class ExchangeImpl final : public Exchange, private FrameSink {
 public:
  ExchangeImpl(std::unique_ptr<Transport> transport, const ExchangeOptions& options);
  ~ExchangeImpl() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Transport& transport() override { return *transport_; }
  bool has_handler_thread() const override { return handler_.joinable(); }
  Status HandlerStatus() const override { return handler_status_; }
  Status CheckThread() const override {
    return threads_allowed_ ? Status() : transport_->CheckThread();
  }

  void Serve(uint32_t channel, Service service) override;
  void ServePatiently(uint32_t channel, uint32_t order, PatientService service) override;
  Result<std::shared_ptr<Call>> Start(int destination, uint32_t channel, Slice head,
                                      Slice body) override;
  Status Wait(const std::shared_ptr<Call>& call, std::string* answer) override;
  Status StartThen(int destination, uint32_t channel, Slice head, Slice body,
                   std::function<void(const Outcome& outcome)> done) override;
  Status Await(const void* key, const char* what, const std::function<int()>& missing) override;
  void Nudge(const void* key) override { sleepers_.Notify(key); }
  Status PeerStatus(int rank) override;
  void Progress() override;
  Status Barrier() override;
  Status Agree(const Status& mine) override;
  Status Fail(const Status& why) override;
  Result<std::vector<std::string>> AllGather(Slice mine) override;
  Result<uint64_t> Sum(uint64_t mine) override;
  Status Notify(int signal, const std::vector<int>& ranks) override;
  Status WaitSignal(int signal, const std::vector<int>& ranks) override;
  void SetCallWork(CallWork work) override { call_work_ = std::move(work); }
  void LimitAnswers(uint64_t bytes_max) override { answer_bytes_max_.store(bytes_max); }
  ExchangeStatistics Statistics() const override;

 private:
  struct Counters {
    std::atomic<uint64_t> requests_sent{0};
    std::atomic<uint64_t> requests_handled{0};
    std::atomic<uint64_t> frames_sent{0};
    std::atomic<uint64_t> bytes_sent{0};
    std::atomic<uint64_t> bytes_received{0};
    std::atomic<uint64_t> send_stalls{0};
    std::atomic<uint64_t> buffered_bytes{0};
  };
  struct Collective;
  class Sending;

  // exchange.cpp: sending.
  void LookAtDeferred();
  Status CheckUse(int destination) const;
  Result<std::shared_ptr<PendingCall>> StartCall(int destination, uint32_t channel, Slice head,
                                                 Slice body, PendingCall::Callback then);
  Status AcquireWindow(Peer& peer, uint64_t bytes);
  void ReleaseWindow(Peer& peer, uint64_t bytes);
  Status SendMessage(Peer& peer, MessageHeader header, Slice head, Slice body,
                     uint64_t deadline_ns);
  Status SendFrames(Peer& peer, MessageHeader header, Slice head, Slice body, uint64_t deadline_ns);
  Status SendToSelf(MessageKind kind, uint32_t channel, uint64_t call, Slice head, Slice body);
  Result<bool> TrySendFrame(Peer& peer, const MessageHeader& header, Slice head, Slice body);
  Status SignalTo(int destination, int signal);

  // exchange_wait.cpp
  Status AwaitMissing(WaitSpec& spec, Missing missing);
  Status WaitUntil(WaitSpec& spec, Condition done);
  class Lead;
  class Polling;
  Status WaitLong(WaitSpec& spec, Condition done, uint64_t spin_ns, Lead& lead);
  bool PollEagerly(Condition done);
  bool Sleep(Sleeper& sleeper, Condition done, bool in_transport, uint64_t timeout_ns);
  bool NobodyPolls() const;
  void CheckPeer(const WaitSpec& spec);
  int TryPoll();
  void PollInCall();
  int PollHeld();
  void FailAll(const Status& why);
  void PollGroup();
  void HandlerLoop();
  void AskAgain();
  uint64_t SleepNs(uint64_t longest_ns) const;
  Status TimedOut(const WaitSpec& spec) const;

  // exchange_receive.cpp
  void OnFrame(int source, Slice frame) override;
  void OnPeerFailed(int source, const Status& why) override;
  void OnRoom(int destination) override;
  void TakeFrame(Peer& peer, Slice frame);
  void KeepMessage(Peer& peer, const MessageHeader& header, Slice payload, std::string* owned);
  void HandleKept(Peer& peer, const HeldMessage& message);
  void HandleMessage(Peer& peer, const MessageHeader& header, Slice payload, std::string* owned);
  void HandleRequest(Peer& peer, uint32_t channel, uint64_t call, Slice payload);
  void HandleSignal(Peer& peer, int signal);
  std::list<UnfinishedMessage> PlaceForUnfinished(Peer& peer);
  void KeepUnfinished(Peer& peer, std::list<UnfinishedMessage> place);
  static bool MustFollow(const Peer& peer, uint32_t order);
  bool FinishOne(Peer& peer, UnfinishedMessage* unfinished);
  void Hold(Peer& peer, const MessageHeader& header, Slice payload);
  bool MustHold(const Peer& peer) const;
  bool MayQueueAnswer(const Peer& peer) const;
  void ListHeld(Peer& peer);
  static bool HasUnserved(const Peer& peer, uint32_t channel);
  void KeepUnserved(Peer& peer, uint32_t channel, uint64_t call, Slice payload);
  void HoldServed();
  void HandleLost(Peer& peer, const MessageHeader& header);
  void CompleteCall(Peer& peer, const MessageHeader& header, Slice payload, std::string* owned);
  void EndCall(Peer& peer, uint64_t number, Status status, std::string answer, bool lost = false);
  void LoseAnswer(Peer& peer, const MessageHeader& header, const Status& why);
  void SendAnswer(Peer& peer, uint64_t call, const Status& status, std::string* answer);
  void PutAnswer(Peer& peer, uint64_t call, const Status& status, std::string* answer);
  void FlushAnswers(Peer& peer);
  void DropAnswers(Peer& peer);
  void FailPeer(Peer& peer, const Status& why);
  int HandleDeferred();
  int HandleAllHeld();
  int HandleHeld(Peer& peer);
  int HandleUnfinished();
  int HandleUnfinishedOf(Peer& peer);
  int HandleOwn();
  void Buffer(uint64_t before, uint64_t now);

  // collective.cpp
  Status RunCollective(Collective& collective);
  void RunPasses(Collective& collective);
  void RunRounds(Collective& collective);
  template <typename Step>
  Status WithMemory(const Collective& collective, int rank, const Step& step);
  Status SendPart(Collective& collective, int destination, int round);
  void ReceivePart(Collective& collective, int source, int round);
  Status AwaitPart(Collective& collective, int source, uint64_t number);
  Status TakePart(Collective& collective, int source, int distance);
  void GiveUp(Collective& collective, int rank, const Status& why);
  void JoinGivingUp(Collective& collective);
  void TellGivenUp(Collective& collective);
  bool HasParted(const Collective& collective);

  const std::unique_ptr<Transport> transport_;
  const ExchangeOptions options_;
  std::atomic<uint64_t> answer_bytes_max_;
  const int rank_;
  const int size_;
  const bool threads_allowed_;
  CallWork call_work_;  ///< may be empty
  ProgressGroup* const group_;  ///< null: none

  PeerTable peers_;
  CallTable calls_;
  ServiceTable services_;
  SignalBox signals_;
  CollectiveBox parts_;
  // State of the thread that is in a collective call.
  uint64_t collective_count_ = 0;
  uint64_t first_given_up_ = 0;  ///< of those in a row; 0: this rank completed the last one
  std::string note_;             ///< that a call is given up
  bool calls_parted_ = false;    ///< one ended on some ranks and was given up on others
  WaitSet sleepers_;
  Counters counters_;

  AdaptiveSpin caller_spin_;
  PollerLock poller_lock_;
  std::atomic<bool> led_{false};       ///< a waiting thread polls
  std::atomic<bool> deferred_{false};  ///< HandleDeferred has something to do
  std::string answer_;                 ///< poller's: what the running service answers
  std::string spare_;                  ///< poller's: memory for the next request of many frames
  std::vector<Peer*> held_list_;       ///< poller's: peers whose requests are held
  std::vector<Peer*> unfinished_list_;  ///< poller's: peers with unfinished requests
  uint64_t ask_again_ns_ = 0;           ///< poller's: when those are asked to go on; 0: never
  std::atomic<bool> has_unfinished_{false};
  uint64_t queued_bytes_ = 0;          ///< poller's: answers that wait for room, of all peers
  std::vector<Peer*> unserved_list_;   ///< poller's: peers whose requests wait for a service

  std::mutex own_mutex_;
  std::vector<HeldMessage> own_;  ///< from this rank to itself

  std::atomic<bool> stop_{false};
  Status handler_status_;
  std::thread handler_;
};

}  // namespace quire::comm
