/// A copy out of a mapped file that can fail. If the device cannot provide a page, or if the file
/// was shortened, the kernel answers a load with SIGBUS; then the copy fails, and the program goes
/// on.
///
/// Layer      io (internal)
/// Threads    any; a fault concerns only the thread that copies
///
/// The price is a handler of SIGBUS. It takes a signal for itself only while its thread is in
/// GuardedCopy() and only where the fault lies in what is being copied. Every other SIGBUS goes to
/// the handler that was there before, which gets the signal mask that it asked for; if there was
/// none, the process ends as it would have. A handler that the program installs later takes this
/// one's place: it has to pass on what is not its own, or a fault in a copy is the program's.
#pragma once

#include <cstddef>

namespace quire::io {

/// [bytes] No machine has smaller pages.
constexpr size_t kSmallestPageBytes = 4096;

/// Installs the handler, once in the life of the process. False where the system refuses; then
/// GuardedCopy() must not be called.
bool PrepareGuardedCopies();

/// Whether a fault in a copy of this thread reaches the handler: SIGBUS was not blocked when it
/// first asked. (If a thread blocks it later, that is not noticed: asking takes a system call.)
bool ThreadMayFault();
/// Whether this thread may make such copies: both of the above.
bool CanGuard();

/// Copies `size` bytes from `from`, within a mapping, to `to`. False where a page of them cannot be
/// had; then anything may stand in `to`.
bool GuardedCopy(const char* from, size_t size, char* to);

/// The same without a copy: a byte of each page is loaded.
bool GuardedTouch(const char* from, size_t size);

}  // namespace quire::io
