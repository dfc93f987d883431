#include "tools/quire-streamd/waits.h"

#include <algorithm>
#include <utility>

#include "base/text/units.h"
#include "io/files/machine.h"

namespace quire::streamd {
namespace {

// [ms] Every turn but the first takes at least this time, so that waiters that end one after
// another share it.
constexpr uint64_t kTurnMsMin = 20;
constexpr uint64_t kProbeNs = 200 * base::kNsPerMs;

}  // namespace

void Waits::Add(const Question& question, Waiter waiter) {
  bool crowded = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (Join(question, &waiter)) return;
    crowded = open_.size() >= static_cast<size_t>(threads_max_);
  }
  if (crowded) {
    // A question whose answer takes long is not worth a thread that others need.
    const uint64_t soon = std::min(waiter.deadline_ns, io::RealClock().NowNs() + kProbeNs);
    const Result<uint64_t> newest = ask_(question, 0, soon);
    const bool again =
        newest.status().code() == Code::kTimedOut && waiter.until_ns > io::RealClock().NowNs();
    if (!again) return waiter.tell(newest);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  Begin(open_.insert(open_.end(), Open{question, {std::move(waiter)}, 0, crowded}));
}

// Joins an open question, only if its turn under way ends in time for this waiter.
bool Waits::Join(const Question& question, Waiter* waiter) {
  for (Open& open : open_) {
    if (!(open.question == question) || open.ends_ns > waiter->until_ns) continue;
    open.waiters.push_back(std::move(*waiter));
    return true;
  }
  return false;
}

void Waits::Begin(Place open) {
  workers_.Run([this, open] { Turn(open); });
}

// Returns the time until the first waiter gives up; less if other questions wait for a thread, so
// that each question has a turn often enough.
uint64_t Waits::TurnMs(const Open& open, uint64_t now) const {
  uint64_t until = UINT64_MAX;
  for (const Waiter& waiter : open.waiters) until = std::min(until, waiter.until_ns);
  const uint64_t left = until > now ? (until - now) / base::kNsPerMs : 0;
  const uint64_t threads = static_cast<uint64_t>(threads_max_);
  const uint64_t share = stream::kWaitMsMax * threads / std::max<uint64_t>(open_.size(), threads);
  const uint64_t turn = std::min(left, std::max(share, kTurnMsMin));
  return open.asked ? std::max(turn, kTurnMsMin) : turn;
}

void Waits::Turn(Place open) {
  uint64_t turn_ms = 0;
  uint64_t deadline_ns = 0;
  Question question;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t now = io::RealClock().NowNs();
    turn_ms = TurnMs(*open, now);
    open->ends_ns = now + turn_ms * base::kNsPerMs;
    open->asked = true;
    question = open->question;
    for (const Waiter& one : open->waiters) deadline_ns = std::max(deadline_ns, one.deadline_ns);
  }
  const Result<uint64_t> newest = ask_(question, turn_ms, deadline_ns);
  const bool again = newest.status().code() == Code::kTimedOut;
  std::vector<Waiter> told;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t now = io::RealClock().NowNs();
    const auto stay =
        std::partition(open->waiters.begin(), open->waiters.end(),
                       [&](const Waiter& one) { return again && one.until_ns > now; });
    told.assign(std::move_iterator(stay), std::move_iterator(open->waiters.end()));
    open->waiters.erase(stay, open->waiters.end());
    if (open->waiters.empty()) {
      open_.erase(open);
    } else {
      Begin(open);
    }
  }
  for (const Waiter& one : told) one.tell(newest);
}

size_t Waits::size() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return open_.size();
}

}  // namespace quire::streamd
