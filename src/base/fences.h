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

#include "base/sanitizer.h"

namespace quire::base {

/// What was stored before is visible to everybody before anything that is stored after.
inline void StoreFence() {
#if QUIRE_THREAD_SANITIZER && defined(__x86_64__)
  asm volatile("mfence" ::: "memory");
#elif QUIRE_THREAD_SANITIZER
  __sync_synchronize();
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// What was loaded before has its value before anything that is loaded after.
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
