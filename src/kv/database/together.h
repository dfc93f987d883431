/// The beginning and the end of a collective call of a program: what one rank lacks for it, or for
/// its answer, is a failure of all.
///
/// Layer      kv
/// Threads    collective
#pragma once

#include "base/out_of_memory.h"
#include "quire/database.h"

namespace quire::kv {

/// Runs `prepare`, which returns a Status and takes the memory that the collective call behind it
/// needs on this rank. Returns the same code on all ranks.
template <typename Prepare>
Status PrepareTogether(Context& context, const Prepare& prepare) {
  return context.Agree(base::OrOutOfMemory(prepare));
}

/// Waits for `event`, of a context's or one of its databases' calls, on all ranks. Returns the same
/// code on all ranks: kTimedOut if the wait of one rank timed out; the operation goes on then.
Status WaitTogether(Context& context, Event& event);

}  // namespace quire::kv
