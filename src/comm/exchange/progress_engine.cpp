#include "comm/exchange/progress_engine.h"

#include <algorithm>
#include <utility>

#include "base/text/units.h"
#include "base/threads/thread.h"

namespace quire::comm {
namespace {

constexpr int kEagerPolls = 32;
// How often a waiting thread asks whether the peer it waits for is still alive.
constexpr uint64_t kPeerCheckNs = 200 * base::kNsPerMs;
// The handler has no timed work; it wakes only so that a lost wake-up does not last forever.
constexpr uint64_t kHandlerSleepNs = 10'000 * base::kNsPerMs;
constexpr int kProgressPollsMax = 8;

}  // namespace

// The right to poll, released however the poll ends.
class ProgressEngine::Polling {
 public:
  explicit Polling(PollerLock* right) : right_(right) {}
  ~Polling() { right_->Unlock(); }
  Polling(const Polling&) = delete;
  Polling& operator=(const Polling&) = delete;

 private:
  PollerLock* const right_;
};

ProgressEngine::ProgressEngine(ExchangeState* state, MessageReceiver* receiver)
    : state_(*state),
      receiver_(*receiver),
      group_(state->threads_allowed ? nullptr : state->transport->progress_group()),
      caller_spin_(state->transport->spin_ns()) {
  if (state_.threads_allowed && state_.options.handler_thread) {
    Result<std::thread> handler = base::StartThread("quire-handler", [this] { HandlerLoop(); });
    handler_status_ = handler.status();
    if (handler.ok()) handler_ = std::move(*handler);
  }
  if (group_ != nullptr) group_->Join(this, [this] { TryPoll(); });
}

void ProgressEngine::Stop() {
  if (group_ != nullptr) group_->Leave(this);
  stop_.store(true, std::memory_order_release);
  if (!handler_.joinable()) return;
  state_.transport->Wake(Waiter::kHandler);
  handler_.join();
}

uint64_t ProgressEngine::SleepNs(uint64_t longest_ns) const {
  return receiver_.requests().has_unfinished() ? std::min(longest_ns, RequestHandler::kAskAgainNs)
                                               : longest_ns;
}

int ProgressEngine::TryPoll() {
  if (!poller_lock_.TryLock()) return -1;
  const Polling polling(&poller_lock_);
  return receiver_.Poll();
}

void ProgressEngine::PollGroup() {
  if (group_ != nullptr) group_->PollOthers(this);
}

// The lead among the waiting threads, released however the wait ends: the program's condition may
// throw.
class ProgressEngine::Lead {
 public:
  explicit Lead(ProgressEngine* engine) : engine_(*engine) { Take(); }
  ~Lead() { Leave(); }
  Lead(const Lead&) = delete;
  Lead& operator=(const Lead&) = delete;

  bool held() const { return held_; }
  void Take() {
    std::atomic<bool>& led = engine_.led_;
    if (held_ || led.load(std::memory_order_relaxed)) return;
    if (led.exchange(true, std::memory_order_acquire)) return;
    engine_.state_.transport->CallerArrives();
    held_ = true;
  }
  void Leave() {
    if (!held_) return;
    engine_.state_.transport->CallerLeaves();
    engine_.led_.store(false, std::memory_order_release);
    held_ = false;
    // The handler sleeps as long as there is a leader.
    if (engine_.receiver_.requests().has_unfinished()) {
      engine_.state_.transport->Wake(Waiter::kHandler);
    }
  }

 private:
  ProgressEngine& engine_;
  bool held_ = false;
};

// Without a handler thread a waiting thread must poll. A thread that stops polling hands over to a
// sleeper that it sees; a sleeper that it does not see comes here, and finds that no thread polls.
bool ProgressEngine::NobodyPolls() const {
  return !has_handler_thread() && !led_.load(std::memory_order_acquire) && poller_lock_.IsFree();
}

bool ProgressEngine::Sleep(Sleeper& sleeper, Condition done, bool in_transport,
                           uint64_t timeout_ns) {
  sleeper.Prepare(in_transport);
  if (done()) return true;
  if (in_transport) {
    state_.transport->Wait(Waiter::kCaller, timeout_ns);
  } else if (!NobodyPolls()) {
    sleeper.SleepOnWord(timeout_ns);
  }
  return false;
}

void ProgressEngine::PollInCall() {
  if (has_handler_thread()) return;
  TryPoll();
  state_.sleepers.HandOver();
  PollGroup();
}

void ProgressEngine::Progress() {
  if (!state_.CheckThread().ok()) return;
  for (int i = 0; i < kProgressPollsMax && TryPoll() > 0; ++i) {
  }
  if (!has_handler_thread()) state_.sleepers.HandOver();
  PollGroup();
}

void ProgressEngine::CheckPeer(const WaitSpec& spec) {
  if (spec.peer < 0 || spec.peer == state_.rank || state_.transport->Alive(spec.peer)) return;
  state_.transport->Wake(Waiter::kHandler);  // the next poll reports what this rank must know
}

Status ProgressEngine::TimedOut(const WaitSpec& spec) const {
  std::string text = "rank " + std::to_string(state_.rank) + " waited " +
                     std::to_string(state_.options.timeout_ms) + " ms for " + spec.what;
  if (spec.peer >= 0) text += " of rank " + std::to_string(spec.peer);
  return Status(Code::kTimedOut, text +
                                     "; that rank may be stopped or busy elsewhere (raise "
                                     "timeout_ms if it may take so long)");
}

// Polls several times without reading the clock, which costs more than a poll; returns true once
// done.
bool ProgressEngine::PollEagerly(Condition done) {
  for (int i = 0; i < kEagerPolls; ++i) {
    const int polled = TryPoll();
    if (done()) return true;
    if (polled <= 0) CpuRelax();
  }
  return false;
}

// Waits until no rank is missing, or the missing rank, spec.peer, has failed. After `missing` named
// the rank, its part may have arrived, and then its failure: what arrived before the failure
// counts, so `missing` is called again.
Status ProgressEngine::AwaitMissing(WaitSpec& spec, Missing missing) {
  const auto failed = [&] {
    return state_.peers.Get(spec.peer).failed.load(std::memory_order_acquire);
  };
  auto done = [&] {
    spec.peer = missing();
    while (spec.peer != Exchange::kNobody && failed()) {
      const int named = std::exchange(spec.peer, missing());
      if (spec.peer == named) return true;
    }
    return spec.peer == Exchange::kNobody;
  };
  return done() ? Status() : WaitUntil(spec, Condition(done));
}

Status ProgressEngine::WaitUntil(WaitSpec& spec, Condition done) {
  Lead lead(this);
  const uint64_t spin_ns = caller_spin_.BudgetNs();
  if (spin_ns != 0 && PollEagerly(done)) {
    lead.Leave();
    if (!has_handler_thread()) state_.sleepers.HandOver();
    caller_spin_.Succeeded();
    return Status();
  }
  return WaitLong(spec, done, spin_ns, lead);
}

Status ProgressEngine::WaitLong(WaitSpec& spec, Condition done, uint64_t spin_ns, Lead& lead) {
  io::Clock& clock = state_.transport->clock();
  const uint64_t start_ns = clock.NowNs();
  const uint64_t deadline_ns = spec.deadline_ns != 0
                                   ? spec.deadline_ns
                                   : start_ns + state_.options.timeout_ms * base::kNsPerMs;
  uint64_t spin_end_ns = start_ns + spin_ns;
  uint64_t check_ns = start_ns + kPeerCheckNs;
  Sleeper sleeper(&state_.sleepers, spec.key);
  bool slept = false;
  bool came_true = false;
  while (!came_true) {
    const int polled = TryPoll();
    PollGroup();
    came_true = done();
    if (came_true) break;
    const uint64_t now_ns = clock.NowNs();
    if (now_ns >= deadline_ns) break;
    if (now_ns >= check_ns) {
      CheckPeer(spec);
      check_ns = now_ns + kPeerCheckNs;
    }
    if (polled > 0) {
      spin_end_ns = now_ns + spin_ns;
    } else if (now_ns < spin_end_ns) {
      CpuRelax();
    } else {
      lead.Take();
      if (polled < 0) lead.Leave();  // another thread polls, and will notify this one
      slept = true;
      const uint64_t longest_ns = std::min(deadline_ns, check_ns) - now_ns;
      came_true = Sleep(sleeper, done, lead.held(), lead.held() ? SleepNs(longest_ns) : longest_ns);
    }
  }
  lead.Leave();
  if (spin_ns != 0) slept ? caller_spin_.Failed() : caller_spin_.Succeeded();
  if (!has_handler_thread()) state_.sleepers.HandOver();
  return came_true ? Status() : TimedOut(spec);
}

void ProgressEngine::HandlerLoop() {
  io::Clock& clock = state_.transport->clock();
  AdaptiveSpin spin(state_.transport->spin_ns());
  uint64_t spin_end_ns = 0;  // 0: it does not spin
  while (!stop_.load(std::memory_order_acquire)) {
    // The leader polls, and hands over when it leaves. If it was leaving and lost its core to this
    // thread, this thread takes the messages. Checking again would keep the core from the leader.
    const bool led = led_.load(std::memory_order_acquire);
    if (led) {
      spin_end_ns = 0;
      if (!state_.transport->Wait(Waiter::kHandler, kHandlerSleepNs)) continue;
    }
    int count = 0;
    {
      poller_lock_.Lock();
      const Polling polling(&poller_lock_);
      count = receiver_.Poll();
    }
    if (count > 0) {
      if (spin_end_ns != 0) spin.Succeeded();
      const uint64_t spin_ns = spin.BudgetNs();
      spin_end_ns = spin_ns == 0 ? 0 : clock.NowNs() + spin_ns;
    } else if (spin_end_ns != 0 && clock.NowNs() < spin_end_ns) {
      CpuRelax();
    } else if (!led) {  // else it has waited, and must first check whether to stop
      if (spin_end_ns != 0) spin.Failed();
      spin_end_ns = 0;
      state_.transport->Wait(Waiter::kHandler, SleepNs(kHandlerSleepNs));
    }
  }
}

}  // namespace quire::comm
