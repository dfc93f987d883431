// Threads for what may wait: started when there is something to do and nobody free for it, gone
// after a while without.
//
// Layer      tools
// Threads    any
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace quire::streamd {

class Workers {
 public:
  explicit Workers(int threads_max) : threads_max_(threads_max) {}
  // Waits for all.
  ~Workers();
  // Runs `job` as soon as a thread is free. Dropped after Stop.
  void Run(std::function<void()> job);
  // What has not begun is dropped. Whether all that had begun ended within the time.
  bool Stop(uint64_t timeout_ms);
  bool stopping();

 private:
  void Work();

  const int threads_max_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::condition_variable ended_;
  std::deque<std::function<void()>> jobs_;
  int threads_ = 0;
  int idle_ = 0;
  bool stopping_ = false;
};

}  // namespace quire::streamd
