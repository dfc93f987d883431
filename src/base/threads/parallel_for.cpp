#include "base/threads/parallel_for.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <new>

namespace quire::base {
namespace {

// The state of one loop. The jobs share ownership: a job that starts when all is done finds no
// work.
class Pieces {
 public:
  Pieces(size_t count, const std::function<void(size_t)>& body) : count_(count), body_(body) {}

  void RunSome() {
    std::unique_lock<std::mutex> lock(mutex_);
    ++running_;
    while (next_ < count_) {
      const size_t i = next_++;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        body_(i);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      if (thrown == nullptr) continue;
      if (failure_ == nullptr) failure_ = thrown;
      next_ = count_;
    }
    if (--running_ == 0) none_runs_.notify_all();
  }

  // Called by the caller of the loop after RunSome.
  void AwaitAll() {
    std::unique_lock<std::mutex> lock(mutex_);
    none_runs_.wait(lock, [this] { return running_ == 0; });
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  const size_t count_;
  const std::function<void(size_t)>& body_;  // the caller's, as long as pieces are left
  std::mutex mutex_;
  std::condition_variable none_runs_;
  size_t next_ = 0;
  int running_ = 0;
  std::exception_ptr failure_;
};

// If there is no memory to request more threads, the requested ones are enough.
void AskForHelp(Executor* executor, size_t count, const std::shared_ptr<Pieces>& pieces) {
  const size_t threads = executor == nullptr ? 0 : static_cast<size_t>(executor->thread_count());
  try {
    for (size_t job = 0; job < threads && job + 1 < count; ++job) {
      executor->Schedule([pieces] { pieces->RunSome(); });
    }
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

void ParallelFor(Executor* executor, size_t count, const std::function<void(size_t)>& body) {
  const auto pieces = std::make_shared<Pieces>(count, body);
  AskForHelp(executor, count, pieces);
  pieces->RunSome();
  pieces->AwaitAll();
}

}  // namespace quire::base
