/// The n-th allocation of a process fails: operator new of the program that links this.
///
/// Layer      tests
/// Threads    any
#ifndef QUIRE_TESTS_API_FAILING_ALLOCATIONS_H_
#define QUIRE_TESTS_API_FAILING_ALLOCATIONS_H_

#include <cstdint>
#include <functional>

namespace quire::test {

/// What came of a process in which one allocation failed.
enum Outcome : int {
  kRan = 0,       ///< to its end, and nothing was wrong
  kTooFar = 10,   ///< to its end, before as many allocations were made
  kWrong = 11,    ///< something was wrong, or it crashed or hung
  kStopped = 12,  ///< with a message, by abort
};

/// After `n` more allocations, of any thread, one fails.
void FailAllocation(int64_t n);
/// From now on none fails; whether one has.
bool AllocationFailed();

/// What `body` answers in a process of its own.
Outcome InProcess(const std::function<Outcome()>& body);

}  // namespace quire::test

#endif  // QUIRE_TESTS_API_FAILING_ALLOCATIONS_H_
