/// The beginning and the end of a program's collective call: if one rank lacks memory for the call,
/// or for its result, the call fails on all ranks.
///
/// Layer      kv
/// Threads    collective
#pragma once

#include "base/core/out_of_memory.h"
#include "quire/database.h"

namespace quire::kv {

/// Runs `prepare`, which returns a Status and allocates the memory that the following collective
/// call needs on this rank. Returns the same code on all ranks.
template <typename Prepare>
Status PrepareTogether(Context& context, const Prepare& prepare) {
  return context.Agree(base::OrOutOfMemory(prepare));
}

/// Waits for `event`, of a call of a context or of one of its databases, on all ranks. Returns the
/// same code on all ranks: kTimedOut if the wait of one rank timed out; the operation then
/// continues.
Status WaitTogether(Context& context, Event& event);

}  // namespace quire::kv
