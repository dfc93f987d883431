/// The n-th descriptor or mapping that a thread asks the system for is refused: the system calls of
/// the program that links this.
///
/// Layer      tests
/// Threads    the one that was told to fail; others are served
#ifndef QUIRE_TESTS_API_FAILING_SYSTEM_CALLS_H_
#define QUIRE_TESTS_API_FAILING_SYSTEM_CALLS_H_

#include <cstdint>

namespace quire::test {

/// After `n` more descriptors, one that this thread asks for is refused (EMFILE).
void FailDescriptorHere(int64_t n);
/// After `n` more mappings, one that this thread asks for is refused (ENOMEM). Those of malloc and
/// of threads' stacks do not count.
void FailMappingHere(int64_t n);
/// From now on none is refused; whether one was.
bool SystemCallFailed();

}  // namespace quire::test

#endif  // QUIRE_TESTS_API_FAILING_SYSTEM_CALLS_H_
