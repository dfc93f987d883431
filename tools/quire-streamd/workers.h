/// Threads for work that may wait: started when there is work and no free thread, ended after a
/// while without work.
///
/// Layer      tools
/// Threads    any
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
  /// Waits for all jobs.
  ~Workers();
  /// Runs `job` as soon as a thread is free. Dropped after Stop.
  void Run(std::function<void()> job);
  /// Starts a thread if there is work without a thread because the system refused one before.
  void Rouse();
  /// Drops work that has not begun. Returns whether all running work ended within the time.
  bool Stop(uint64_t timeout_ms);
  bool stopping();

 private:
  void FindThread();
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
