/// One piece of work after another, on as many threads as are free for it.
///
/// Layer      base
/// Threads    ParallelFor: any, also the executor's own
#pragma once

#include <cstddef>
#include <functional>

#include "base/executor.h"

namespace quire::base {

/// Runs body(0) to body(count - 1), each once and in any order, on this thread and on those of
/// `executor` (null: none) that come to it before this one has done all; returns when all have run.
/// An exception of one of them is thrown again, and those that had not begun do not run.
void ParallelFor(Executor* executor, size_t count, const std::function<void(size_t)>& body);

}  // namespace quire::base
