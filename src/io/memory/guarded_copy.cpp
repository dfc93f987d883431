#include "io/memory/guarded_copy.h"

#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "io/memory/fault_handler.h"

namespace quire::io {
namespace {

// The bytes that this thread is copying, and the way out.
struct Guarded {
  uintptr_t begin;
  uintptr_t end;
  sigjmp_buf way_out;
};

// The handler reads it. "initial-exec": in a shared library the usual way to a thread's variable
// may allocate memory at a thread's first use, and a signal handler must not.
[[gnu::tls_model("initial-exec")]] constinit thread_local Guarded* guarded = nullptr;

constinit FaultHandler bus_error;

bool IsIn(const Guarded& copy, const siginfo_t& info) {
  if (IsSent(SIGBUS, info)) return false;
  // The address of bad memory is known by its page (on DAX by a block of pages), any other by the
  // byte.
  const int unknown_bits = info.si_code == BUS_MCEERR_AR ? info.si_addr_lsb : 0;
  const uintptr_t unknown = (uintptr_t{1} << unknown_bits) - 1;
  const auto address = reinterpret_cast<uintptr_t>(info.si_addr);
  return (address & ~unknown) < copy.end && (address | unknown) >= copy.begin;
}

void OnBusError(int signal, siginfo_t* info, void* context) {
  Guarded* const copy = guarded;
  if (copy == nullptr || !IsIn(*copy, *info)) {
    bus_error.PassOn(signal, info, context);
    return;
  }
  // Restores the mask, as the end of a handler does: SIGBUS is blocked while this runs, and would
  // be fatal later.
  ::pthread_sigmask(SIG_SETMASK, &static_cast<const ucontext_t*>(context)->uc_sigmask, nullptr);
  siglongjmp(copy->way_out, 1);
}

// ThreadSanitizer would report a race with other threads that store here.
__attribute__((no_sanitize("thread"))) void Touch(const volatile char* from, size_t size) {
  for (size_t at = 0; at < size; at += kSmallestPageBytes) static_cast<void>(from[at]);
  static_cast<void>(from[size - 1]);
}

// Copies to `to`; if that is null it only touches. Never inlined: the caller's values in registers
// must be on the stack before sigsetjmp. Nothing here has a destructor that the jump would skip.
[[gnu::noinline]] bool Guard(const char* from, size_t size, char* to) {
  Guarded copy;
  copy.begin = reinterpret_cast<uintptr_t>(from);
  copy.end = copy.begin + size;
  // Without the signal mask: saving it would be a system call, and the copy is there to save one.
  if (sigsetjmp(copy.way_out, 0) != 0) {
    guarded = nullptr;
    return false;
  }
  guarded = &copy;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (to != nullptr) {
    std::memcpy(to, from, size);
  } else {
    Touch(from, size);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  guarded = nullptr;
  return true;
}

}  // namespace

bool PrepareGuardedCopies() {
  static const bool installed = bus_error.Install(SIGBUS, OnBusError);
  return installed;
}

// Checks once in a thread's life: a system call each time would cost what the copy saves.
bool ThreadMayFault() {
  thread_local const bool may_fault = [] {
    sigset_t blocked;
    return ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked) == 0 &&
           sigismember(&blocked, SIGBUS) == 0;
  }();
  return may_fault;
}

bool CanGuard() {
  return PrepareGuardedCopies() && ThreadMayFault();
}

bool GuardedCopy(const char* from, size_t size, char* to) {
  return Guard(from, size, to);
}

bool GuardedTouch(const char* from, size_t size) {
  return size == 0 || Guard(from, size, nullptr);
}

}  // namespace quire::io
