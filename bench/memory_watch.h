/// How much memory this process holds while something runs: pages of its own and shared ones, and,
/// apart from these, pages of files that it has mapped.
///
/// Layer      bench
/// Threads    one thread; looks from a thread of its own
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace quire::bench {

/// Sizes of resident memory.
struct ResidentBytes {
  uint64_t held = 0;    ///< anonymous and shared memory
  uint64_t mapped = 0;  ///< of files: the page cache
};

/// Looks every few milliseconds, from construction to destruction.
class MemoryWatch {
 public:
  MemoryWatch();
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;
  /// The most of each so far, less what was there at the start.
  ResidentBytes Peak() const;

 private:
  ResidentBytes start_;
  std::atomic<uint64_t> peak_held_;
  std::atomic<uint64_t> peak_mapped_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace quire::bench
