// The functions of the failing allocator that starved_test.f90 calls.
#include <cstdint>

#include "tests/api/failing_allocations.h"

extern "C" {

/// After `n` more allocations of this thread, one of them fails.
void starve(int64_t n);
void starve(int64_t n) { quire::test::FailAllocationHere(n); }

/// From now on none fails; 1 if one has.
int starved();
int starved() { return quire::test::AllocationFailed() ? 1 : 0; }

}  // extern "C"
