/// A handler of a signal that faults cause (SIGSEGV, SIGBUS), installed before the program's own
/// handler: faults that are not Quire's are passed on to the program's handler as if this one did
/// not exist.
///
/// Layer      io (internal)
/// Threads    Install: one at a time. All else: any, and in handlers
///
/// The earlier handler runs with the signal mask that it requested; if there was none, the process
/// ends as it would have. A handler that the program installs later replaces this one: it must pass
/// on signals that are not its own. IsInstalled reports it.
#pragma once

#include <signal.h>

#include <atomic>

namespace quire::io {

/// Returns whether the signal was sent (kill, raise, a notice of bad memory), not caused by the
/// interrupted instruction.
bool IsSent(int signal, const siginfo_t& info);

/// A handler, which must exist as long as the process.
class FaultHandler {
 public:
  using Function = void (*)(int signal, siginfo_t* info, void* context);

  constexpr FaultHandler() = default;
  /// Installs the handler; returns false if the system refuses.
  bool Install(int signal, Function ours);
  /// Returns whether `ours` still receives the signal.
  bool IsInstalled() const;
  /// Called by `ours`: passes a signal to the handler to which it belongs.
  void PassOn(int signal, siginfo_t* info, void* context);

 private:
  struct sigaction before_us_ = {};  // written before our handler can run
  std::atomic<bool> before_us_spent_ = false;
  int signal_ = 0;
  Function ours_ = nullptr;
};

}  // namespace quire::io
