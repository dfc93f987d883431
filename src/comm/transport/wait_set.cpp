#include "comm/transport/wait_set.h"

#include "io/ipc/shared_memory.h"

namespace quire::comm {
namespace {

constexpr uint64_t kPollRightSleepNs = 1'000'000'000;

}  // namespace

Sleeper::~Sleeper() {
  if (registered_) set_->Remove(this);
}

void Sleeper::Prepare(bool in_transport) {
  in_transport_.store(in_transport, std::memory_order_relaxed);
  notified_.store(0, std::memory_order_relaxed);
  if (!registered_) set_->Add(this);
  registered_ = true;
  set_->Meet();
}

void Sleeper::SleepOnWord(uint64_t timeout_ns) {
  if (notified_.load(std::memory_order_acquire) == 0) io::FutexWait(&notified_, 0, timeout_ns);
}

void WaitSet::Add(Sleeper* sleeper) {
  const std::lock_guard<std::mutex> lock(mutex_);
  sleeper->next_ = first_;
  if (first_ != nullptr) first_->previous_ = sleeper;
  first_ = sleeper;
  count_.fetch_add(1, std::memory_order_acq_rel);
}

void WaitSet::Remove(Sleeper* sleeper) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (sleeper->previous_ != nullptr) sleeper->previous_->next_ = sleeper->next_;
  if (sleeper->next_ != nullptr) sleeper->next_->previous_ = sleeper->previous_;
  if (first_ == sleeper) first_ = sleeper->next_;
  count_.fetch_sub(1, std::memory_order_relaxed);
}

void WaitSet::Wake(Sleeper* sleeper) {
  sleeper->notified_.store(1, std::memory_order_release);
  if (sleeper->in_transport_.load(std::memory_order_relaxed)) {
    transport_->Wake(Waiter::kCaller);
  } else {
    io::FutexWake(&sleeper->notified_, 1);
  }
}

// Sleepers and notifiers both change the count: the second one sees the earlier stores of the
// first, so that either the notifier sees the sleeper, or the sleeper sees the event.
uint32_t WaitSet::Meet() {
  return count_.fetch_add(0, std::memory_order_acq_rel);
}

void WaitSet::Notify(const void* key, const void* other_key) {
  if (Meet() == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Sleeper* sleeper = first_; sleeper != nullptr; sleeper = sleeper->next_) {
    if (sleeper->key_ == key || sleeper->key_ == other_key) Wake(sleeper);
  }
}

void WaitSet::NotifyAll() {
  if (Meet() == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Sleeper* sleeper = first_; sleeper != nullptr; sleeper = sleeper->next_) Wake(sleeper);
}

void WaitSet::HandOver() {
  if (Meet() == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Sleeper* sleeper = first_; sleeper != nullptr; sleeper = sleeper->next_) {
    if (sleeper->in_transport_.load(std::memory_order_relaxed)) continue;
    Wake(sleeper);
    return;
  }
}

void PollerLock::Lock() {
  if (TryLock()) return;
  while (state_.exchange(kWanted, std::memory_order_acquire) != kFree) {
    io::FutexWait(&state_, kWanted, kPollRightSleepNs);
  }
}

void PollerLock::Unlock() {
  if (state_.exchange(kFree, std::memory_order_release) == kWanted) io::FutexWake(&state_, 1);
}

}  // namespace quire::comm
