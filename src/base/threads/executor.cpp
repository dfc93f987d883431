#include "base/threads/executor.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/check.h"
#include "base/core/out_of_memory.h"
#include "base/threads/thread.h"

namespace quire::base {
namespace {

// The number of long jobs, of any pool, that run on this thread.
thread_local int long_jobs = 0;
constexpr int kLongJobsMax = 2;

class ThreadPool : public Executor {
 public:
  ~ThreadPool() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  Status Start(int thread_count, const char* name) {
    threads_.reserve(static_cast<size_t>(thread_count));
    for (int i = 0; i < thread_count; ++i) {
      QUIRE_ASSIGN_OR_RETURN(std::thread thread, StartThread(name, [this] { RunThread(); }));
      threads_.push_back(std::move(thread));
    }
    return Status();
  }

  void Schedule(std::function<void()> job) override { Add({std::move(job), false}); }
  void ScheduleLong(std::function<void()> job) override { Add({std::move(job), true}); }

  void RunWaiting() override {
    std::unique_lock<std::mutex> lock(mutex_);
    for (size_t left = jobs_.size(); left > 0; --left) {
      const auto may_run = [](const Job& job) { return !job.is_long || long_jobs < kLongJobsMax; };
      const auto next = std::find_if(jobs_.begin(), jobs_.end(), may_run);
      if (next == jobs_.end()) return;
      Job job = std::move(*next);
      jobs_.erase(next);
      Run(std::move(job), lock);
    }
  }
  int LongJobs() const override { return long_jobs; }

  bool RunOne() override { return false; }
  void WaitIdle() override {
    std::unique_lock<std::mutex> lock(mutex_);
    idle_.wait(lock, [this] { return jobs_.empty() && running_ == 0; });
  }
  int thread_count() const override { return static_cast<int>(threads_.size()); }

 private:
  struct Job {
    std::function<void()> run;
    bool is_long;
  };

  // Runs the job without the lock, which is taken again after the job's captures are destroyed.
  static void Run(Job job, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    if (job.is_long) ++long_jobs;
    job.run();
    if (job.is_long) --long_jobs;
    job.run = nullptr;
    lock.lock();
  }

  void Add(Job job) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    wake_.notify_one();
  }

  void RunThread() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;  // stopping, and all is done
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      ++running_;
      Run(std::move(job), lock);
      if (--running_ == 0 && jobs_.empty()) idle_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<Job> jobs_;
  int running_ = 0;
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

  void WaitIdle() override {
    while (RunOne()) {
    }
  }

  int thread_count() const override { return 0; }

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> jobs_;
};

}  // namespace

Result<std::unique_ptr<Executor>> NewThreadPool(int thread_count, const char* name) {
  QUIRE_CHECK(thread_count > 0);
  return OrOutOfMemory([&]() -> Result<std::unique_ptr<Executor>> {
    auto pool = std::make_unique<ThreadPool>();
    QUIRE_RETURN_IF_ERROR(pool->Start(thread_count, name));
    return std::unique_ptr<Executor>(std::move(pool));
  });
}

std::unique_ptr<Executor> NewManualExecutor() { return std::make_unique<ManualExecutor>(); }

}  // namespace quire::base
