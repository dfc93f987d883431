/// Threads that sleep until a named event happens; and the right to poll, which one thread holds at
/// a time.
///
/// Layer      comm
/// Threads    WaitSet: any. A Sleeper belongs to its thread. PollerLock: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "comm/transport/transport.h"

namespace quire::comm {

class WaitSet;

/// One waiting thread. Registers at the first Sleep, leaves when it is destroyed.
class Sleeper {
 public:
  /// Creates a sleeper that Notify(key) wakes.
  Sleeper(WaitSet* set, const void* key) : set_(set), key_(key) {}
  ~Sleeper();
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  /// Announces that this thread is about to sleep, in the transport's Wait or in SleepOnWord. The
  /// caller must check its condition once more between Prepare and sleeping: a Notify from here on
  /// ends the sleep.
  void Prepare(bool in_transport);
  /// Sleeps until notified since Prepare, or `timeout_ns` from now; may return early.
  void SleepOnWord(uint64_t timeout_ns);

 private:
  friend class WaitSet;
  WaitSet* set_;
  const void* key_;
  std::atomic<uint32_t> notified_{0};
  std::atomic<bool> in_transport_{false};
  bool registered_ = false;
  Sleeper* next_ = nullptr;
  Sleeper* previous_ = nullptr;
};

class WaitSet {
 public:
  explicit WaitSet(Transport* transport) : transport_(transport) {}
  /// Wakes the threads that wait for `key`. Cheap if no thread sleeps. Call it after the awaited
  /// condition has become true.
  void Notify(const void* key) { Notify(key, key); }
  /// Wakes the threads that wait for either key.
  void Notify(const void* key, const void* other_key);
  /// Wakes all.
  void NotifyAll();
  /// Wakes one thread that does not sleep in the transport, so that it polls.
  void HandOver();

 private:
  friend class Sleeper;
  void Add(Sleeper* sleeper);
  void Remove(Sleeper* sleeper);
  void Wake(Sleeper* sleeper);
  uint32_t Meet();

  Transport* transport_;
  std::atomic<uint32_t> count_{0};
  std::mutex mutex_;
  Sleeper* first_ = nullptr;
};

/// A lock whose holder may keep it for long (it runs services), so that most threads only try it.
class PollerLock {
 public:
  bool TryLock() {
    uint32_t expected = kFree;
    return state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire);
  }
  bool IsFree() const { return state_.load(std::memory_order_acquire) == kFree; }
  /// Locks; sleeps until the lock is free.
  void Lock();
  void Unlock();

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kHeld = 1;
  static constexpr uint32_t kWanted = 2;  ///< held, and a thread sleeps for it
  std::atomic<uint32_t> state_{kFree};
};

/// Hints to the processor that this thread spins.
inline void CpuRelax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace quire::comm
