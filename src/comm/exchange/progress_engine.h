/// Polls the transport, and lets threads wait and sleep.
///
/// A thread that waits becomes the leader if there is none: it polls, runs requested services, and
/// sleeps in the transport until something arrives, so that an answer costs one wake-up and no
/// hand-over between threads. Other waiting threads sleep on a word of their own. Without a leader,
/// the handler thread polls; without a handler thread, the next leader does.
///
/// Layer      comm
/// Source     PapyrusKV, SC17, section 2.4 (message handler)
/// Threads    any, where Exchange::CheckThread allows it
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "comm/exchange/exchange_state.h"
#include "comm/exchange/message_receiver.h"
#include "comm/transport/adaptive_spin.h"
#include "comm/transport/progress_group.h"

namespace quire::comm {

/// A reference to a function that is called repeatedly.
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
using Missing = Question<int>;     ///< which rank's part is missing, or Exchange::kNobody

/// The condition that a thread waits for.
struct WaitSpec {
  const void* key = nullptr;  ///< WaitSet::Notify(key) says that it may have come true
  int peer = -1;              ///< the rank that must be alive for it; may change while waiting
  const char* what = "";      ///< for the error text: "an answer"
  uint64_t deadline_ns = 0;   ///< 0: timeout_ms from the beginning of the wait
};

class ProgressEngine {
 public:
  /// Starts the handler thread if the options ask for it, and transport and system allow it.
  ProgressEngine(ExchangeState* state, MessageReceiver* receiver);
  ~ProgressEngine() { Stop(); }
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;
  /// Ends the handler thread. Threads that wait go on.
  void Stop();

  bool has_handler_thread() const { return handler_.joinable(); }
  const Status& handler_status() const { return handler_status_; }

  /// Waits, making progress, until `done`. Errors: kTimedOut.
  Status WaitUntil(WaitSpec& spec, Condition done);
  /// Waits until no rank is missing (then spec.peer is kNobody), or until the missing rank
  /// spec.peer has failed. Errors: kTimedOut.
  Status AwaitMissing(WaitSpec& spec, Missing missing);
  /// Returns the error of a wait that reached its deadline.
  Status TimedOut(const WaitSpec& spec) const;
  /// Handles arrived messages. Does nothing on a thread that may not poll.
  void Progress();
  /// Polls briefly in a call that does not wait; does nothing if there is a handler thread.
  void PollInCall();

 private:
  class Lead;
  class Polling;
  Status WaitLong(WaitSpec& spec, Condition done, uint64_t spin_ns, Lead& lead);
  bool PollEagerly(Condition done);
  bool Sleep(Sleeper& sleeper, Condition done, bool in_transport, uint64_t timeout_ns);
  bool NobodyPolls() const;
  void CheckPeer(const WaitSpec& spec);
  int TryPoll();
  void PollGroup();
  void HandlerLoop();
  uint64_t SleepNs(uint64_t longest_ns) const;

  ExchangeState& state_;
  MessageReceiver& receiver_;
  ProgressGroup* const group_;  ///< null: none
  AdaptiveSpin caller_spin_;
  PollerLock poller_lock_;
  std::atomic<bool> led_{false};  ///< a waiting thread polls
  std::atomic<bool> stop_{false};
  Status handler_status_;
  std::thread handler_;
};

}  // namespace quire::comm
