#include "io/memory/fault_handler.h"

namespace quire::io {
namespace {

// Does what the kernel would have done without a handler.
void ActByDefault(int signal, const siginfo_t& info) {
  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(signal, &by_default, nullptr);
  // A fault comes again when we return to its instruction, and a core file then shows that place.
  if (IsSent(signal, info)) ::raise(signal);
}

}  // namespace

bool IsSent(int signal, const siginfo_t& info) {
  return info.si_code <= 0 || (signal == SIGBUS && info.si_code == BUS_MCEERR_AO);
}

bool FaultHandler::Install(int signal, Function ours) {
  if (::sigaction(signal, nullptr, &before_us_) != 0) return false;
  signal_ = signal;
  ours_ = ours;
  struct sigaction action = {};
  action.sa_sigaction = ours;
  action.sa_mask = before_us_.sa_mask;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | (before_us_.sa_flags & (SA_NODEFER | SA_RESTART));
  return ::sigaction(signal, &action, nullptr) == 0;
}

bool FaultHandler::IsInstalled() const {
  struct sigaction now = {};
  return ours_ != nullptr && ::sigaction(signal_, nullptr, &now) == 0 &&
         (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == ours_;
}

void FaultHandler::PassOn(int signal, siginfo_t* info, void* context) {
  const bool once = (before_us_.sa_flags & static_cast<int>(SA_RESETHAND)) != 0;
  const bool spent = once && before_us_spent_.exchange(true);
  if (before_us_.sa_handler == SIG_IGN && IsSent(signal, *info)) return;
  // The kernel does not let a program ignore a fault.
  if (spent || before_us_.sa_handler == SIG_DFL || before_us_.sa_handler == SIG_IGN) {
    ActByDefault(signal, *info);
  } else if ((before_us_.sa_flags & SA_SIGINFO) != 0) {
    before_us_.sa_sigaction(signal, info, context);
  } else {
    before_us_.sa_handler(signal);
  }
}

}  // namespace quire::io
