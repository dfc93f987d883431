#include "base/threads/sync_point.h"

#include <condition_variable>
#include <mutex>

#include "base/core/check.h"
#include "base/core/scope_exit.h"

namespace quire::base {

namespace internal {
constinit std::atomic<bool> sync_points_installed{false};
}  // namespace internal

namespace {

// Never destroyed: a thread may reach a sync point while the process ends.
struct State {
  std::mutex mutex;
  std::condition_variable left;
  SyncPointListener* listener = nullptr;
  int inside = 0;
};

State& TheState() {
  static State* const state = new State;
  return *state;
}

}  // namespace

namespace internal {

void ReachSyncPoint(const char* name) {
  State& state = TheState();
  SyncPointListener* listener = nullptr;
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    listener = state.listener;
    if (listener == nullptr) return;
    ++state.inside;
  }
  const ScopeExit leave([&state] {  // a listener may throw, as an allocation there would
    const std::lock_guard<std::mutex> lock(state.mutex);
    if (--state.inside == 0) state.left.notify_all();
  });
  listener->Reach(name);
}

}  // namespace internal

ScopedSyncPoints::ScopedSyncPoints(SyncPointListener* listener) {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  QUIRE_CHECK(state.listener == nullptr);
  state.listener = listener;
  internal::sync_points_installed.store(true, std::memory_order_relaxed);
}

ScopedSyncPoints::~ScopedSyncPoints() {
  State& state = TheState();
  std::unique_lock<std::mutex> lock(state.mutex);
  internal::sync_points_installed.store(false, std::memory_order_relaxed);
  state.listener = nullptr;
  state.left.wait(lock, [&state] { return state.inside == 0; });
}

}  // namespace quire::base
