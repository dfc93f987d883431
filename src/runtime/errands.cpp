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
  for (std::function<void()> dropped; TakeFirst(&dropped);) {
    dropped = nullptr;  // destroyed without the lock
  }
}

bool Errands::TakeFirst(std::function<void()>* errand) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (queue_.empty()) return false;
  *errand = std::move(queue_.front());
  queue_.pop_front();
  count_.store(queue_.size(), std::memory_order_release);
  return true;
}

bool Errands::RunPending() {
  bool any = false;
  std::function<void()> errand;
  while (pending() && TakeFirst(&errand)) {
    errand();
    errand = nullptr;
    any = true;
  }
  return any;
}

}  // namespace quire::runtime
