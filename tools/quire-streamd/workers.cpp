#include "tools/quire-streamd/workers.h"

#include <chrono>
#include <thread>
#include <utility>

#include "base/threads/thread.h"

namespace quire::streamd {
namespace {

constexpr std::chrono::seconds kIdleTime(10);

}  // namespace

Workers::~Workers() {
  std::unique_lock<std::mutex> lock(mutex_);
  stopping_ = true;
  jobs_.clear();
  asked_.notify_all();
  ended_.wait(lock, [this] { return threads_ == 0; });
}

void Workers::Run(std::function<void()> job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return;
  jobs_.push_back(std::move(job));
  FindThread();
}

void Workers::Rouse() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!stopping_ && !jobs_.empty()) FindThread();
}

// Wakes or starts a thread for the waiting work. The mutex must be held.
void Workers::FindThread() {
  if (static_cast<int>(jobs_.size()) <= idle_ || threads_ >= threads_max_) {
    asked_.notify_one();
    return;
  }
  Result<std::thread> thread = base::StartThread("streamd-worker", [this] { Work(); });
  if (!thread.ok()) {
    asked_.notify_one();  // no more threads can be started: an existing one does it
    return;
  }
  thread->detach();  // the destructor waits for it, by the count
  ++threads_;
}

bool Workers::stopping() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stopping_;
}

bool Workers::Stop(uint64_t timeout_ms) {
  std::unique_lock<std::mutex> lock(mutex_);
  stopping_ = true;
  jobs_.clear();
  asked_.notify_all();
  return ended_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                         [this] { return threads_ == 0; });
}

void Workers::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    ++idle_;
    const bool asked =
        asked_.wait_for(lock, kIdleTime, [this] { return stopping_ || !jobs_.empty(); });
    --idle_;
    if (!asked || jobs_.empty()) break;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
  --threads_;
  ended_.notify_all();
}

}  // namespace quire::streamd
