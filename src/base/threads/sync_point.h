/// Named places in the code at which a test may hold a thread while other threads continue. A
/// program pays one load and one branch for each.
///
/// Layer      base
/// Threads    any
#pragma once

#include <atomic>

namespace quire::base {

/// A listener that is called on every thread that reaches a sync point, and may keep that thread
/// waiting.
class SyncPointListener {
 public:
  virtual ~SyncPointListener() = default;
  /// `name` is a string literal, such as "lsm.publish.before". Must not throw. May be called with
  /// locks held: it must not call the object under test.
  virtual void Reach(const char* name) = 0;
};

namespace internal {
extern std::atomic<bool> sync_points_installed;
void ReachSyncPoint(const char* name);
}  // namespace internal

/// A sync point. Name: "<folder>.<step>.<before|after|...>"; each name stands once in the tree.
inline void SyncPoint(const char* name) {
  if (internal::sync_points_installed.load(std::memory_order_relaxed)) [[unlikely]] {
    internal::ReachSyncPoint(name);
  }
}

/// Installs a listener for its lifetime, one at a time in a process. The destructor waits until no
/// thread is inside Reach(): the listener must release the threads that it holds first.
class ScopedSyncPoints {
 public:
  explicit ScopedSyncPoints(SyncPointListener* listener);
  ~ScopedSyncPoints();
  ScopedSyncPoints(const ScopedSyncPoints&) = delete;
  ScopedSyncPoints& operator=(const ScopedSyncPoints&) = delete;
};

}  // namespace quire::base
