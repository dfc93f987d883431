/// Tests refuse the calling thread memory, a descriptor, or a mapping. Each row is one of these
/// shortages.
///
/// Layer      tests
/// Threads    the one that was told to fail; others are served
#ifndef QUIRE_TESTS_API_SHORTAGES_H_
#define QUIRE_TESTS_API_SHORTAGES_H_

#include <cstdint>

#include "tests/api/failing_allocations.h"
#include "tests/api/failing_system_calls.h"

namespace quire::test {

struct Shortage {
  const char* what;
  void (*refuse)(int64_t n);  ///< the n-th from now on
  bool (*was_refused)();      ///< and none from now on
};

constexpr Shortage kShortages[] = {{"allocation", FailAllocationHere, AllocationFailed},
                                   {"descriptor", FailDescriptorHere, SystemCallFailed},
                                   {"mapping", FailMappingHere, SystemCallFailed}};

/// Lasts until was_refused() is called.
constexpr Shortage kLastingShortage = {"allocations from", FailAllocationsHereFrom,
                                       AllocationFailed};

}  // namespace quire::test

#endif  // QUIRE_TESTS_API_SHORTAGES_H_
