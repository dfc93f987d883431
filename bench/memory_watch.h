/// How much memory this process holds while something runs: its own pages and those it shares, not
/// the page cache that files are mapped from.
///
/// Layer      bench
/// Threads    one thread; looks from a thread of its own
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace quire::bench {

/// Looks every few milliseconds, from construction to destruction.
class MemoryWatch {
 public:
  MemoryWatch();
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;
  /// The most so far (anonymous and shared memory), less what was there at the start.
  uint64_t PeakBytes() const;

 private:
  uint64_t start_bytes_;
  std::atomic<uint64_t> peak_bytes_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace quire::bench
