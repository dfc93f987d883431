#include "runtime/errands.h"

#include <utility>

namespace quire::runtime {

void Errands::Run(std::function<void()> errand) {
  if (!in_calls_) return executor_->Schedule(std::move(errand));
  const std::lock_guard<std::mutex> lock(mutex_);
  queue_.push_back(std::move(errand));
  count_.store(queue_.size(), std::memory_order_release);
}

void Errands::Drop() {
  std::deque<std::function<void()>> dropped;  // destroyed without the lock
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    dropped.swap(queue_);
    count_.store(0, std::memory_order_release);
  }
}

bool Errands::RunPending() {
  bool any = false;
  while (pending()) {
    std::function<void()> errand;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (queue_.empty()) break;
      errand = std::move(queue_.front());
      queue_.pop_front();
      count_.store(queue_.size(), std::memory_order_release);
    }
    errand();
    any = true;
  }
  return any;
}

}  // namespace quire::runtime
