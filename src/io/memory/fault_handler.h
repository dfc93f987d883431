/// A handler of a signal that faults cause (SIGSEGV, SIGBUS), put before the one that the program
/// has: what is not ours goes to that one as if this were not here.
///
/// Layer      io (internal)
/// Threads    Install: one at a time. All else: any, and in handlers
///
/// The earlier handler gets the signal mask that it asked for; if there was none, the process ends
/// as it would have. A handler that the program installs later takes this one's place: it has to
/// pass on what is not its own. IsInstalled reports it.
#pragma once

#include <signal.h>

#include <atomic>

namespace quire::io {

/// The signal was sent (kill, raise, a notice of bad memory), not caused by the interrupted
/// instruction.
bool IsSent(int signal, const siginfo_t& info);

/// Lives as long as the process does.
class FaultHandler {
 public:
  using Function = void (*)(int signal, siginfo_t* info, void* context);

  constexpr FaultHandler() = default;
  /// False where the system refuses.
  bool Install(int signal, Function ours);
  /// Whether `ours` is still who gets the signal.
  bool IsInstalled() const;
  /// For `ours`: the signal belongs to another handler.
  void PassOn(int signal, siginfo_t* info, void* context);

 private:
  struct sigaction before_us_ = {};  // written before our handler can run
  std::atomic<bool> before_us_spent_ = false;
  int signal_ = 0;
  Function ours_ = nullptr;
};

}  // namespace quire::io
