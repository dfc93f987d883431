/// Going on in the background.
///
/// Layer      tools
/// Threads    before any is started
#pragma once

#include <utility>

#include "io/files/descriptor.h"
#include "quire/status.h"

namespace quire::streamd {

/// Goes on in a new process, of a session of its own. The old one ends with success once Ready is
/// called, or with failure if the new one ends: so its caller knows how the start went.
class Background {
 public:
  static Result<Background> Enter();
  /// Standard streams lead nowhere from now on.
  void Ready();

 private:
  explicit Background(io::FileDescriptor pipe) : pipe_(std::move(pipe)) {}
  io::FileDescriptor pipe_;
};

}  // namespace quire::streamd
