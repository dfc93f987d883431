// Holds one thread at a named sync point while the other threads go on: every interleaving of
// "a thread stands here" with another action can be had without sleeping.
//
// Threads: any.
#ifndef QUIRE_TESTS_SUPPORT_HELD_THREAD_H_
#define QUIRE_TESTS_SUPPORT_HELD_THREAD_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/core/random.h"
#include "base/threads/sync_point.h"

namespace quire::test {

// Which thread is held, and for how long.
struct Hold {
  std::string place;  // of the sync point; empty: no thread is held, places are only counted
  int skip = 0;       // so many arrivals at `place` pass first
  int events = 0;     // released after so many arrivals of others anywhere; 0: by Release() only
  int wait_ms_max = 200;  // released after so long at the latest: the others may need the thread

  // A hold at `place` whose other numbers are drawn.
  static Hold Drawn(std::string place, base::Random& random) {
    Hold hold;
    hold.place = std::move(place);
    hold.skip = static_cast<int>(random.Below(3));
    hold.events = static_cast<int>(random.Below(40)) + 1;
    hold.wait_ms_max = 20;
    return hold;
  }
};

// Installed for its lifetime, one in a process. Holds one thread, once.
class HeldThread final : public base::SyncPointListener {
 public:
  explicit HeldThread(Hold hold) : hold_(std::move(hold)) { installed_.emplace(this); }
  ~HeldThread() override {
    Release();
    installed_.reset();  // waits for threads inside
  }
  HeldThread(const HeldThread&) = delete;
  HeldThread& operator=(const HeldThread&) = delete;

  // Lets the held thread go, and holds none from now on.
  void Release() {
    const std::lock_guard<std::mutex> lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  // Waits until a thread is held, at most `ms_max`, or until Release(). False: none came.
  bool WaitUntilHeld(int ms_max = 10'000) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(ms_max),
                      [this] { return held_ || released_; });
    return held_;
  }
  // Whether a thread was held, now or before.
  bool held() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return held_;
  }
  // How often each place was reached.
  std::map<std::string, int> arrivals() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return arrivals_;
  }

  void Reach(const char* name) override {
    std::unique_lock<std::mutex> lock(mutex_);
    const int before = arrivals_[name]++;
    if (held_) {
      if (hold_.events > 0 && ++events_ >= hold_.events) released_ = true;
      if (released_) changed_.notify_all();
      return;
    }
    if (released_ || hold_.place != name || before < hold_.skip) return;
    held_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::milliseconds(hold_.wait_ms_max),
                      [this] { return released_; });
    released_ = true;
  }

 private:
  const Hold hold_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> arrivals_;
  int events_ = 0;
  bool held_ = false;
  bool released_ = false;
  std::optional<base::ScopedSyncPoints> installed_;
};

}  // namespace quire::test

#endif  // QUIRE_TESTS_SUPPORT_HELD_THREAD_H_
