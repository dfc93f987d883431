/// The n-th allocation of a process fails, and what is allocated is counted: operator new of the
/// program that links this.
///
/// Layer      tests
/// Threads    any
#ifndef QUIRE_TESTS_API_FAILING_ALLOCATIONS_H_
#define QUIRE_TESTS_API_FAILING_ALLOCATIONS_H_

#include <cstdint>

namespace quire::test {

/// After `n` more allocations, of any thread, one fails.
void FailAllocation(int64_t n);
/// After `n` more allocations, of any thread, `count` fail in a row.
void FailAllocations(int64_t n, int64_t count);
/// After `n` more allocations of this thread, one of them fails.
void FailAllocationHere(int64_t n);
/// After `n` more allocations of this thread, each of its further ones fails.
void FailAllocationsHereFrom(int64_t n);
/// From now on none fails; whether one has.
bool AllocationFailed();
/// From now on all fail, of any thread.
void FailAllAllocations();
/// Again they do not. Returns how many failed.
uint64_t AllowAllocations();
/// Bytes that are allocated now.
int64_t AllocatedBytes();

}  // namespace quire::test

#endif  // QUIRE_TESTS_API_FAILING_ALLOCATIONS_H_
