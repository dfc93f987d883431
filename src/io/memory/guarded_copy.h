/// A copy out of a mapped file that can fail. If the device cannot provide a page, or if the file
/// was shortened, the kernel answers a load with SIGBUS; then the copy fails, and the program
/// continues.
///
/// Layer      io (internal)
/// Threads    any; a fault concerns only the thread that copies
///
/// This needs a handler of SIGBUS. It handles a signal only while its thread is in GuardedCopy(),
/// and only if the faulting address is in the copied bytes. Every other SIGBUS goes to the earlier
/// handler, with the signal mask that it requested; if there was none, the process ends as it would
/// have. A handler that the program installs later replaces this one: it must pass on signals that
/// are not its own, or it receives the faults of copies.
#pragma once

#include <cstddef>

namespace quire::io {

/// [bytes] No machine has smaller pages.
constexpr size_t kSmallestPageBytes = 4096;

/// Installs the handler, once in the life of the process. Returns false if the system refuses; then
/// GuardedCopy() must not be called.
bool PrepareGuardedCopies();

/// Returns whether a fault in a copy of this thread reaches the handler: SIGBUS was not blocked at
/// the thread's first call. (A thread that blocks it later is not detected, because that would take
/// a system call.)
bool ThreadMayFault();
/// Returns whether this thread may make such copies: both functions above return true.
bool CanGuard();

/// Copies `size` bytes from `from`, within a mapping, to `to`. Returns false if a page of them
/// cannot be read; then the content of `to` is undefined.
bool GuardedCopy(const char* from, size_t size, char* to);

/// Loads a byte of each page without copying; otherwise like GuardedCopy.
bool GuardedTouch(const char* from, size_t size);

}  // namespace quire::io
