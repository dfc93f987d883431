#include "runtime/progress_queue.h"

#include <utility>

namespace quire::runtime {

void ProgressQueue::Run(std::function<void()> work) {
  if (!in_calls_) return executor_->Schedule(std::move(work));
  const std::lock_guard<std::mutex> lock(mutex_);
  queue_.push_back(std::move(work));
  count_.store(queue_.size(), std::memory_order_release);
}

void ProgressQueue::Drop() {
  for (std::function<void()> dropped; TakeFirst(&dropped);) {
    dropped = nullptr;  // destroyed while the lock is not held
  }
}

bool ProgressQueue::TakeFirst(std::function<void()>* work) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (queue_.empty()) return false;
  *work = std::move(queue_.front());
  queue_.pop_front();
  count_.store(queue_.size(), std::memory_order_release);
  return true;
}

bool ProgressQueue::RunPending() {
  bool any = false;
  std::function<void()> work;
  while (pending() && TakeFirst(&work)) {
    work();
    work = nullptr;
    any = true;
  }
  return any;
}

}  // namespace quire::runtime
