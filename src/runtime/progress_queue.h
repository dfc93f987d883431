/// Work that sends messages but waits for none. It is done in the background if threads may send,
/// else inside the program's calls.
///
/// Layer      runtime
/// Threads    any
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "base/threads/executor.h"
#include "comm/exchange/exchange.h"

namespace quire::runtime {

class ProgressQueue {
 public:
  ProgressQueue(comm::Exchange* exchange, std::shared_ptr<base::Executor> executor)
      : in_calls_(!exchange->has_handler_thread() && exchange->size() > 1),
        executor_(std::move(executor)) {
    if (in_calls_) exchange->SetCallWork({[this] { return pending(); }, [this] { RunPending(); }});
  }

  /// Runs `work` once, soon, never inside this call.
  void Run(std::function<void()> work);
  /// Runs the work that waits for the program's calls, which call this, collective ones included.
  /// Returns false if there was none.
  bool RunPending();
  /// Drops the work that waits for calls.
  void Drop();
  bool pending() const { return count_.load(std::memory_order_acquire) != 0; }

 private:
  bool TakeFirst(std::function<void()>* work);

  const bool in_calls_;
  const std::shared_ptr<base::Executor> executor_;
  std::atomic<size_t> count_{0};
  std::mutex mutex_;
  std::deque<std::function<void()>> queue_;
};

}  // namespace quire::runtime
