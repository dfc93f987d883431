#include "failing_allocations.h"

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

// Allocations until the first that fails. From zero down, in_a_row of them fail; then none does,
// or, if they fail from one on, each.
std::atomic<int64_t> countdown{-1};
std::atomic<int64_t> in_a_row{1};
std::atomic<bool> from_one_on{false};
// Whether it counts those of one thread only, and whether this is the one.
std::atomic<bool> of_one_thread{false};
thread_local bool is_the_one = false;
std::atomic<bool> all_fail{false};
std::atomic<uint64_t> failures{0};  // since all fail
std::atomic<int64_t> allocated{0};

bool Fails() {
  if (all_fail.load(std::memory_order_relaxed)) {
    failures.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  if (of_one_thread.load(std::memory_order_relaxed) && !is_the_one) return false;
  const int64_t last = 1 - in_a_row.load(std::memory_order_relaxed);
  if (countdown.load(std::memory_order_relaxed) < last) {
    return from_one_on.load(std::memory_order_relaxed);
  }
  const int64_t left = countdown.fetch_sub(1, std::memory_order_relaxed);
  return left <= 0 && left >= last;
}

void Count(void* memory, int64_t sign) {
  const auto bytes = static_cast<int64_t>(::malloc_usable_size(memory));
  allocated.fetch_add(sign * bytes, std::memory_order_relaxed);
}

void* Allocate(size_t size, size_t alignment) {
  if (Fails()) return nullptr;
  void* const memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  Count(memory, 1);
  return memory;
}

// Not inlined: GCC takes a free that it sees in operator delete for a mistake.
[[gnu::noinline]] void Free(void* memory) {
  Count(memory, -1);
  std::free(memory);
}

void* AllocateOrThrow(size_t size, size_t alignment) {
  void* const memory = Allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t size) {
  return AllocateOrThrow(size, 1);
}
void* operator new(size_t size, std::align_val_t alignment) {
  return AllocateOrThrow(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size, 1);
}
void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  Free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  Free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  Free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  Free(memory);
}

namespace quire::test {

void FailAllocation(int64_t n) {
  FailAllocations(n, 1);
}

void FailAllocations(int64_t n, int64_t count) {
  in_a_row = count;
  countdown = n;
}

void FailAllocationHere(int64_t n) {
  is_the_one = true;
  of_one_thread = true;
  countdown = n;
}

void FailAllocationsHereFrom(int64_t n) {
  FailAllocationHere(n);
  from_one_on = true;  // last: while none is counted, it would be true of every thread
}

void FailAllAllocations() {
  failures = 0;
  all_fail = true;
}

uint64_t AllowAllocations() {
  all_fail = false;
  return failures;
}

int64_t AllocatedBytes() {
  return allocated.load(std::memory_order_relaxed);
}

bool AllocationFailed() {
  from_one_on = false;
  in_a_row = 1;
  const bool failed = countdown.exchange(-1) < 0;
  of_one_thread = false;
  is_the_one = false;
  return failed;
}

}  // namespace quire::test
