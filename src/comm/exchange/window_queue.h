/// The threads that wait for room in the window of a peer, in the order in which they came. Without
/// this order a large request could wait forever, while small ones find room again and again.
///
/// Layer      comm
/// Threads    any
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

namespace quire::comm {

class WindowQueue {
 public:
  /// On the stack of the thread that waits.
  struct Place {
    Place* next = nullptr;
    std::thread::id thread;
  };

  bool empty() const { return first_.load(std::memory_order_acquire) == nullptr; }
  void Join(Place* place) {
    place->thread = std::this_thread::get_id();
    const std::lock_guard<std::mutex> lock(mutex_);
    Place* last = first_.load(std::memory_order_relaxed);
    if (last == nullptr) return first_.store(place, std::memory_order_release);
    while (last->next != nullptr) last = last->next;
    last->next = place;
  }
  /// Returns whether no other thread comes before it. A thread may have two places: it may wait
  /// here in work that it does during an outer wait. It is first with either place.
  bool IsFirst(const Place& place) const {
    if (first_.load(std::memory_order_acquire) == &place) return true;
    const std::lock_guard<std::mutex> lock(mutex_);
    const Place* const first = first_.load(std::memory_order_relaxed);
    return first != nullptr && first->thread == std::this_thread::get_id();
  }
  void Leave(const Place* place) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Place* at = first_.load(std::memory_order_relaxed);
    if (at == place) return first_.store(place->next, std::memory_order_release);
    while (at->next != place) at = at->next;
    at->next = place->next;
  }

 private:
  mutable std::mutex mutex_;
  std::atomic<Place*> first_{nullptr};  // changed under mutex_
};

}  // namespace quire::comm
