/// The behaviour of Quire's objects in a forked child of the process that created them: calls fail,
/// and destructors leave the object's parts as they are. The child has a copy of their memory, but
/// none of their threads; a mutex may be held, or a condition waited for, by a thread that it does
/// not have.
///
/// Layer      base
/// Threads    any
#pragma once

#include <cstdint>
#include <utility>

#include "base/fork_generation.h"
#include "base/program_call.h"
#include "quire/status.h"

namespace quire::base {

/// Remembers the process that made an object.
class OwnProcess {
 public:
  /// True in a forked child. One load.
  bool forked() const { return generation_ != ForkGeneration(); }
  /// True unless the caller is a forked child, or inside a function that Quire called.
  bool MayCall() const { return !forked() && !InProgramCall(); }
  /// kInvalidArgument unless MayCall(); `what` names the object: "the database".
  Status Check(const char* what) const {
    if (forked()) return InForkedChild(what);
    return CheckNoProgramCall(what);
  }

 private:
  uint32_t generation_ = ForkGeneration();
};

namespace internal {
struct Left {
  virtual ~Left() = default;
  Left* next = nullptr;
};
/// Keeps `part` reachable, for detectors of leaks.
void Leave(Left* part);
}  // namespace internal

/// Moves `parts` to where they stay until the process ends, so that their destructors do not run.
/// For destructors in a forked child; without memory for it the child ends.
template <typename... Parts>
void LeaveInChild(Parts&... parts) {
  const auto leave = []<typename Part>(Part& part) {
    struct LeftPart : internal::Left {
      explicit LeftPart(Part&& moved) : value(std::move(moved)) {}
      Part value;
    };
    internal::Leave(new LeftPart(std::move(part)));
  };
  (leave(parts), ...);
}

}  // namespace quire::base
