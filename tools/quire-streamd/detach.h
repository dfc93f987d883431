/// Continuation of a program in the background.
///
/// Layer      tools
/// Threads    call it before any thread is started
#pragma once

#include <utility>

#include "io/files/descriptor.h"
#include "quire/status.h"

namespace quire::streamd {

/// Continues the program in a new process with its own session. The old process ends with success
/// once Ready is called, or with failure if the new one ends before: so the caller of the program
/// knows whether the start succeeded.
class Background {
 public:
  static Result<Background> Enter();
  /// Ends the old process with success, and redirects the standard streams to /dev/null.
  void Ready();

 private:
  explicit Background(io::FileDescriptor pipe) : pipe_(std::move(pipe)) {}
  io::FileDescriptor pipe_;
};

}  // namespace quire::streamd
