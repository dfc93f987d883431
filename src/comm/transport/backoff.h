/// How long a thread sleeps between two polls of MPI, which wakes no thread.
///
/// Layer      comm
/// Threads    any
#pragma once

#include <atomic>
#include <cstdint>

namespace quire::comm {

/// The length of naps, which grow with the time since the last activity: frames of a busy rank are
/// found soon, and an idle rank uses almost no processor time. docs/decisions/0007-waiting.md has
/// the measurements behind the numbers.
class Backoff {
 public:
  /// Records that something arrived or was sent.
  void Activity() { active_.store(true, std::memory_order_relaxed); }
  /// Returns the nap for a thread that found nothing at `now_ns`; longer for a thread on whose
  /// behalf another thread polls.
  uint64_t SleepNs(uint64_t now_ns, bool is_backup);

 private:
  std::atomic<bool> active_{true};  ///< since the last nap: so that activity needs no clock
  std::atomic<uint64_t> last_ns_{0};
};

/// Sleeps while *word is 0, at most `timeout_ns`, and wakes on time: without the slack of 50
/// microseconds that the kernel gives to timers.
void SleepPrecisely(const std::atomic<uint32_t>* word, uint64_t timeout_ns);

}  // namespace quire::comm
