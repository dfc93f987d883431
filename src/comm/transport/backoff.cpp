#include "comm/transport/backoff.h"

#include <sys/prctl.h>

#include <algorithm>

#include "io/ipc/shared_memory.h"

namespace quire::comm {
namespace {

// A nap is a part of the time since the last activity, within bounds.
struct NapBounds {
  uint64_t idle_per_nap;
  uint64_t min_ns;
  uint64_t max_ns;
};
constexpr NapBounds kPollerNap = {8, 20'000, 8'000'000};
constexpr NapBounds kBackupNap = {4, 500'000, 20'000'000};
constexpr unsigned long kSlackNs = 1'000;
// From here on the kernel's slack does not matter.
constexpr uint64_t kLongNapNs = 500'000;

}  // namespace

uint64_t Backoff::SleepNs(uint64_t now_ns, bool is_backup) {
  if (active_.load(std::memory_order_relaxed)) {
    active_.store(false, std::memory_order_relaxed);
    last_ns_.store(now_ns, std::memory_order_relaxed);
  }
  const uint64_t last_ns = last_ns_.load(std::memory_order_relaxed);
  const uint64_t idle_ns = now_ns > last_ns ? now_ns - last_ns : 0;
  const NapBounds& bounds = is_backup ? kBackupNap : kPollerNap;
  return std::clamp(idle_ns / bounds.idle_per_nap, bounds.min_ns, bounds.max_ns);
}

void SleepPrecisely(const std::atomic<uint32_t>* word, uint64_t timeout_ns) {
  if (timeout_ns >= kLongNapNs) return io::FutexWait(word, 0, timeout_ns);
  const int before = ::prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  ::prctl(PR_SET_TIMERSLACK, kSlackNs, 0, 0, 0);
  io::FutexWait(word, 0, timeout_ns);
  // A slack of 0 would set the thread's default; only a failed query returns 0.
  if (before > 0) ::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(before), 0, 0, 0);
}

}  // namespace quire::comm
