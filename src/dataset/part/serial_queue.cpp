#include "dataset/part/serial_queue.h"

#include <utility>

#include "base/core/out_of_memory.h"

namespace quire::dataset {

void SerialQueue::Run(std::function<Status()> work) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(work));
    if (std::exchange(running_, true)) return;
  }
  if (!HandOver()) RunHere();
}

// Schedules the work on the executor; returns false if that is impossible.
bool SerialQueue::HandOver() {
  if (executor_ == nullptr) return false;
  const Status scheduled = base::OrOutOfMemory([this] {
    executor_->Schedule([self = shared_from_this()] { self->RunHere(); });
    return Status();
  });
  return scheduled.ok();
}

// Runs one piece at a time, so that other work on the executor has its turn.
void SerialQueue::RunHere() {
  while (RunOne() && !HandOver()) {
  }
}

// Runs one piece; returns whether there is more.
bool SerialQueue::RunOne() {
  std::function<Status()> work;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    work = std::move(queue_.front());
    queue_.pop_front();
  }
  const Status status = base::OrOutOfMemory(work);
  work = nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (status_.ok()) status_ = status;
  ++finished_;
  running_ = !queue_.empty();
  if (!running_) rests_.notify_all();
  exchange_->Nudge(this);  // before a waiter sees the end, and destroys the exchange
  return running_;
}

Status SerialQueue::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

void SerialQueue::ClearError() {
  const std::lock_guard<std::mutex> lock(mutex_);
  status_ = Status();
}

bool SerialQueue::idle() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !running_;
}

uint64_t SerialQueue::finished() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return finished_;
}

// Waits until `done` is true. A device may be slow, so the wait ends only if no work finished
// within a deadline.
Status SerialQueue::WaitUntil(const char* what, const std::function<bool()>& done) {
  while (!done()) {
    const uint64_t before = finished();
    const int self = exchange_->rank();
    const Status waited =
        exchange_->Await(this, what, [&] { return done() ? comm::Exchange::kNobody : self; });
    if (!waited.ok() && finished() == before) return waited;
  }
  return Status();
}

void SerialQueue::WaitUntilIdle() {
  std::unique_lock<std::mutex> lock(mutex_);
  rests_.wait(lock, [this] { return !running_; });
}

Status SerialQueue::Drain() {
  QUIRE_RETURN_IF_ERROR(WaitUntil("tables and maps to be written", [this] { return idle(); }));
  return status();
}

}  // namespace quire::dataset
