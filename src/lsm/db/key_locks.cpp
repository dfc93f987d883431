#include "lsm/db/key_locks.h"

#include <thread>

#include "base/threads/epoch.h"

namespace quire::lsm {
namespace {

// A holder needs about a hundred nanoseconds, unless its thread lost its core, a function of the
// program takes long, or a large value is stored.
constexpr int kSpins = 64;

}  // namespace

void KeyLocks::Enable() {
  if (settled_.load(std::memory_order_acquire)) return;
  const std::lock_guard<std::mutex> lock(enable_mutex_);
  if (settled_.load(std::memory_order_relaxed)) return;
  enabled_.store(true, std::memory_order_seq_cst);
  // Writes that found the flag unset are inside guards that were entered before now.
  base::EpochSynchronize();
  settled_.store(true, std::memory_order_release);
}

void KeyLocks::LockSlowly(size_t index) {
  std::atomic<uint32_t>& word = words_[index];
  for (int spin = 0; spin < kSpins; ++spin) {
    uint32_t free = kFree;
    if (word.load(std::memory_order_relaxed) == kFree &&
        word.compare_exchange_strong(free, kHeld, std::memory_order_acquire)) {
      return;
    }
  }
  while (word.exchange(kWaitedFor, std::memory_order_acquire) != kFree) word.wait(kWaitedFor);
}

void KeyLocks::LockAll(const Set& set) {
  for (size_t i = 0; i < kCount; ++i) {
    if (set[i]) Lock(i);
  }
}

void KeyLocks::UnlockAll(const Set& set) {
  for (size_t i = 0; i < kCount; ++i) {
    if (set[i]) Unlock(i);
  }
}

}  // namespace quire::lsm
