/// A part of a test in a process of its own, which may stop, crash or hang.
///
/// Layer      tests
/// Threads    call where there is one thread
#ifndef QUIRE_TESTS_API_CHILD_PROCESS_H_
#define QUIRE_TESTS_API_CHILD_PROCESS_H_

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

/// What `body` answers in a process of its own.
Outcome InProcess(const std::function<Outcome()>& body);

/// `run`, told which allocation is to fail: all of the first, and a sample of the others (of
/// QUIRE_FIRST_SEED; all of them if QUIRE_TEST_SCALE is 2 or more), until there are no more.
/// Expects that nothing goes wrong, and that few stop the program.
void FailInTurn(const std::function<Outcome(int64_t n)>& run);

}  // namespace quire::test

#endif  // QUIRE_TESTS_API_CHILD_PROCESS_H_
