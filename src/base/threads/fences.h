/// Ordering of plain reads and writes against a generation number that other processes validate.
///
/// Layer      base
/// Source     Boehm: Can Seqlocks Get Along With Programming Language Memory Models? (MSPC12)
/// Threads    any
///
/// ThreadSanitizer does not know fences (and cannot see the other process); under it they are the
/// bare instruction.
#pragma once

#include <atomic>

#include "base/core/sanitizer.h"

namespace quire::base {

/// Earlier stores become visible to all threads before any later store.
inline void PublishFence() {
#if QUIRE_THREAD_SANITIZER && defined(__x86_64__)
  asm volatile("mfence" ::: "memory");
#elif QUIRE_THREAD_SANITIZER
  __sync_synchronize();
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// Earlier loads have their values before any later load.
inline void LoadFence() {
#if QUIRE_THREAD_SANITIZER && defined(__x86_64__)
  asm volatile("" ::: "memory");  // loads are not reordered on x86
#elif QUIRE_THREAD_SANITIZER
  __sync_synchronize();
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

}  // namespace quire::base
