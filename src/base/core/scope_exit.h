/// Runs a function when a scope is left, by return or by exception.
///
/// Layer      base
/// Threads    an object belongs to one thread
#pragma once

#include <utility>

namespace quire::base {

/// Calls `end` at destruction. `end` must not throw.
template <typename Function>
class [[nodiscard]] ScopeExit {
 public:
  explicit ScopeExit(Function end) : end_(std::move(end)) {}
  ~ScopeExit() { end_(); }
  ScopeExit(const ScopeExit&) = delete;
  ScopeExit& operator=(const ScopeExit&) = delete;

 private:
  const Function end_;
};

}  // namespace quire::base
