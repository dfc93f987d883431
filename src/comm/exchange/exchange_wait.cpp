#include <algorithm>
#include <utility>

#include "base/out_of_memory.h"
#include "base/units.h"
#include "comm/exchange/exchange_impl.h"

namespace quire::comm {
namespace {

constexpr int kFramesPerPoll = 16;
constexpr int kEagerPolls = 32;
// How often a waiting thread asks whether the peer it waits for is still alive.
constexpr uint64_t kPeerCheckNs = 200 * base::kNsPerMs;
// The handler has nothing to look after by time; it wakes only so that no mistake lasts for ever.
constexpr uint64_t kHandlerSleepNs = 10'000 * base::kNsPerMs;
// How often unfinished requests are asked to go on: what they wait for tells nobody.
constexpr uint64_t kAskAgainNs = base::kNsPerMs;

}  // namespace

// The right to poll, given back however the poll ends.
class ExchangeImpl::Polling {
 public:
  explicit Polling(PollerLock* right) : right_(right) {}
  ~Polling() { right_->Unlock(); }
  Polling(const Polling&) = delete;
  Polling& operator=(const Polling&) = delete;

 private:
  PollerLock* const right_;
};

// By the holder of the poll right. Nothing leaves it: a poll that has no memory may have lost
// something of any rank, and all hear of that.
int ExchangeImpl::PollHeld() {
  int count = 0;
  const Status polled = base::OrOutOfMemory([&] {
    count = transport_->Poll(*this, kFramesPerPoll);
    if (ask_again_ns_ != 0 && transport_->clock().NowNs() >= ask_again_ns_) deferred_.store(true);
    if (deferred_.load(std::memory_order_relaxed) && deferred_.exchange(false)) {
      count += HandleDeferred();
    }
    return Status();
  });
  if (!polled.ok()) {
    FailAll(polled);
    AskAgain();  // this rank's own requests may be left, and are handled all the same
  }
  return count;
}

// With the poll right: unfinished requests go on a little later.
void ExchangeImpl::AskAgain() {
  ask_again_ns_ = transport_->clock().NowNs() + kAskAgainNs;
  if (has_unfinished_.exchange(true, std::memory_order_acq_rel)) return;
  transport_->Wake(Waiter::kHandler);  // it sleeps for longer
}

uint64_t ExchangeImpl::SleepNs(uint64_t longest_ns) const {
  const bool unfinished = has_unfinished_.load(std::memory_order_acquire);
  return unfinished ? std::min(longest_ns, kAskAgainNs) : longest_ns;
}

void ExchangeImpl::FailAll(const Status& why) {
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    static_cast<void>(base::OrOutOfMemory([&] {
      FailPeer(peers_.Get(rank), why);
      return Status();
    }));
  }
}

int ExchangeImpl::TryPoll() {
  if (!poller_lock_.TryLock()) return -1;
  const Polling polling(&poller_lock_);
  return PollHeld();
}

void ExchangeImpl::PollGroup() {
  if (group_ != nullptr) group_->PollOthers(this);
}

// The lead among the threads that wait, left however the wait ends: a question of the program may
// throw.
class ExchangeImpl::Lead {
 public:
  explicit Lead(ExchangeImpl* exchange) : exchange_(exchange) { Take(); }
  ~Lead() { Leave(); }
  Lead(const Lead&) = delete;
  Lead& operator=(const Lead&) = delete;

  bool held() const { return held_; }
  void Take() {
    std::atomic<bool>& led = exchange_->led_;
    if (held_ || led.load(std::memory_order_relaxed)) return;
    if (led.exchange(true, std::memory_order_acquire)) return;
    exchange_->transport_->CallerArrives();
    held_ = true;
  }
  void Leave() {
    if (!held_) return;
    exchange_->transport_->CallerLeaves();
    exchange_->led_.store(false, std::memory_order_release);
    held_ = false;
    // The handler sleeps for as long as somebody leads.
    if (exchange_->has_unfinished_.load(std::memory_order_acquire)) {
      exchange_->transport_->Wake(Waiter::kHandler);
    }
  }

 private:
  ExchangeImpl* const exchange_;
  bool held_ = false;
};

// Without a handler thread somebody who waits must poll. Whoever stops polling hands over to a
// sleeper it sees; a sleeper it does not see comes here, and finds that nobody polls.
bool ExchangeImpl::NobodyPolls() const {
  return !has_handler_thread() && !led_.load(std::memory_order_acquire) && poller_lock_.IsFree();
}

bool ExchangeImpl::Sleep(Sleeper& sleeper, Condition done, bool in_transport, uint64_t timeout_ns) {
  sleeper.Prepare(in_transport);
  if (done()) return true;
  if (in_transport) {
    transport_->Wait(Waiter::kCaller, timeout_ns);
  } else if (!NobodyPolls()) {
    sleeper.SleepOnWord(timeout_ns);
  }
  return false;
}

void ExchangeImpl::PollInCall() {
  if (has_handler_thread()) return;
  TryPoll();
  sleepers_.HandOver();
  PollGroup();
}

void ExchangeImpl::CheckPeer(const WaitSpec& spec) {
  if (spec.peer < 0 || spec.peer == rank_ || transport_->Alive(spec.peer)) return;
  transport_->Wake(Waiter::kHandler);  // the next poll tells what this rank must know
}

Status ExchangeImpl::TimedOut(const WaitSpec& spec) const {
  std::string text = "rank " + std::to_string(rank_) + " waited " +
                     std::to_string(options_.timeout_ms) + " ms for " + spec.what;
  if (spec.peer >= 0) text += " of rank " + std::to_string(spec.peer);
  return Status(Code::kTimedOut, text +
                                     "; that rank may be stopped or busy elsewhere (raise "
                                     "timeout_ms if it may take so long)");
}

// Polls some times without looking at the clock, which costs more than a poll; true once done.
bool ExchangeImpl::PollEagerly(Condition done) {
  for (int i = 0; i < kEagerPolls; ++i) {
    const int polled = TryPoll();
    if (done()) return true;
    if (polled <= 0) CpuRelax();
  }
  return false;
}

// Waits until nobody is missing, or spec.peer is, and has failed. Since it was named its part may
// have come, and its end after that: what came before the end counts, so it is looked for again.
Status ExchangeImpl::AwaitMissing(WaitSpec& spec, Missing missing) {
  const auto failed = [&] { return peers_.Get(spec.peer).failed.load(std::memory_order_acquire); };
  auto done = [&] {
    spec.peer = missing();
    while (spec.peer != kNobody && failed()) {
      const int named = std::exchange(spec.peer, missing());
      if (spec.peer == named) return true;
    }
    return spec.peer == kNobody;
  };
  return done() ? Status() : WaitUntil(spec, Condition(done));
}

Status ExchangeImpl::WaitUntil(WaitSpec& spec, Condition done) {
  Lead lead(this);
  const uint64_t spin_ns = caller_spin_.BudgetNs();
  if (spin_ns != 0 && PollEagerly(done)) {
    lead.Leave();
    if (!has_handler_thread()) sleepers_.HandOver();
    caller_spin_.Succeeded();
    return Status();
  }
  return WaitLong(spec, done, spin_ns, lead);
}

Status ExchangeImpl::WaitLong(WaitSpec& spec, Condition done, uint64_t spin_ns, Lead& lead) {
  io::Clock& clock = transport_->clock();
  const uint64_t start_ns = clock.NowNs();
  const uint64_t deadline_ns =
      spec.deadline_ns != 0 ? spec.deadline_ns : start_ns + options_.timeout_ms * base::kNsPerMs;
  uint64_t spin_end_ns = start_ns + spin_ns;
  uint64_t check_ns = start_ns + kPeerCheckNs;
  Sleeper sleeper(&sleepers_, spec.key);
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
  if (!has_handler_thread()) sleepers_.HandOver();
  return came_true ? Status() : TimedOut(spec);
}

void ExchangeImpl::HandlerLoop() {
  io::Clock& clock = transport_->clock();
  AdaptiveSpin spin(transport_->spin_ns());
  uint64_t spin_end_ns = 0;  // 0: it does not spin
  while (!stop_.load(std::memory_order_acquire)) {
    // The leader polls, and hands over when it leaves. It may be half gone and have lost its core
    // to this thread: then what has come is taken here. To look again would keep the core from it.
    const bool led = led_.load(std::memory_order_acquire);
    if (led) {
      spin_end_ns = 0;
      if (!transport_->Wait(Waiter::kHandler, kHandlerSleepNs)) continue;
    }
    int count = 0;
    {
      poller_lock_.Lock();
      const Polling polling(&poller_lock_);
      count = PollHeld();
    }
    if (count > 0) {
      if (spin_end_ns != 0) spin.Succeeded();
      const uint64_t spin_ns = spin.BudgetNs();
      spin_end_ns = spin_ns == 0 ? 0 : clock.NowNs() + spin_ns;
    } else if (spin_end_ns != 0 && clock.NowNs() < spin_end_ns) {
      CpuRelax();
    } else if (!led) {  // else it has waited, and has to see first whether it is to stop
      if (spin_end_ns != 0) spin.Failed();
      spin_end_ns = 0;
      transport_->Wait(Waiter::kHandler, SleepNs(kHandlerSleepNs));
    }
  }
}

}  // namespace quire::comm
