/// Runs pieces of work on as many threads as are free.
///
/// Layer      base
/// Threads    ParallelFor: any, also the executor's own
#pragma once

#include <cstddef>
#include <functional>

#include "base/threads/executor.h"

namespace quire::base {

/// Runs body(0) to body(count - 1), each once and in any order, on this thread and on those of
/// `executor` (null: none) that become free before all pieces have begun; returns when all have
/// run. If a piece throws, the exception is rethrown, and pieces that had not begun do not run.
void ParallelFor(Executor* executor, size_t count, const std::function<void(size_t)>& body);

}  // namespace quire::base
