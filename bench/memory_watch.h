/// The memory of this process while a function runs: its own pages and shared ones, and,
/// separately, pages of files that it has mapped.
///
/// Layer      bench
/// Threads    one thread; measures from a thread of its own
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

/// Measures every few milliseconds, from construction to destruction.
class MemoryWatch {
 public:
  MemoryWatch();
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;
  /// Returns the maximum of each so far, minus the value at the start.
  ResidentBytes Peak() const;

 private:
  ResidentBytes start_;
  std::atomic<uint64_t> peak_held_;
  std::atomic<uint64_t> peak_mapped_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace quire::bench
