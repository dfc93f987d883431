#include "base/executor.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"

namespace quire::base {
namespace {

constexpr size_t kThreadNameMax = 15;  // the kernel's limit, without the NUL

class ThreadPool : public Executor {
 public:
  ThreadPool(int thread_count, const char* name) : name_(name) {
    name_.resize(std::min(name_.size(), kThreadNameMax));
    threads_.reserve(static_cast<size_t>(thread_count));
    try {
      for (int i = 0; i < thread_count; ++i) threads_.emplace_back([this] { RunThread(); });
    } catch (...) {
      Stop();  // no memory or no more threads: those that run must not outlive this
      throw;
    }
  }

  ~ThreadPool() override { Stop(); }

  void Schedule(std::function<void()> job) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    wake_.notify_one();
  }

  bool RunOne() override { return false; }
  int thread_count() const override { return static_cast<int>(threads_.size()); }

 private:
  void Stop() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void RunThread() {
    pthread_setname_np(pthread_self(), name_.c_str());  // for debuggers only: failure is harmless
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;  // stopping, and all is done
      std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      job = nullptr;  // what it captured is released before the mutex is taken again
      lock.lock();
    }
  }

  std::string name_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

class ManualExecutor : public Executor {
 public:
  void Schedule(std::function<void()> job) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    jobs_.push_back(std::move(job));
  }

  bool RunOne() override {
    std::function<void()> job;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (jobs_.empty()) return false;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
    return true;
  }

  int thread_count() const override { return 0; }

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> jobs_;
};

}  // namespace

std::unique_ptr<Executor> NewThreadPool(int thread_count, const char* name) {
  QUIRE_CHECK(thread_count > 0);
  return std::make_unique<ThreadPool>(thread_count, name);
}

std::unique_ptr<Executor> NewManualExecutor() { return std::make_unique<ManualExecutor>(); }

}  // namespace quire::base
