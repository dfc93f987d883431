/// The behaviour of Quire's objects in a forked child of the process that created them: calls fail,
/// and destructors leave the object's parts as they are. The child has a copy of their memory, but
/// none of their threads; a thread that does not exist in the child may hold a mutex or wait for a
/// condition.
///
/// Layer      base
/// Threads    any
#pragma once

#include <cstdint>
#include <utility>

#include "base/core/program_call.h"
#include "base/threads/fork_generation.h"
#include "quire/status.h"

namespace quire::base {

/// The process that created an object.
class OwnProcess {
 public:
  /// Returns true in a forked child. Cost: one load.
  bool forked() const { return generation_ != ForkGeneration(); }
  /// Returns true unless the caller is a forked child, or inside a function that Quire called.
  bool MayCall() const { return !forked() && !InProgramCall(); }
  /// Returns kInvalidArgument unless MayCall(); `what` names the object: "the database".
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

/// Moves `parts` to memory that stays until the process ends, so that their destructors do not run.
/// For destructors in a forked child; if there is no memory for this, the child ends.
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
