/// The end of a background operation that a collective call waits for.
///
/// Layer      kv
/// Threads    collective
#pragma once

#include "quire/database.h"

namespace quire::kv {

/// Waits for `event`, of a context's or one of its databases' calls, on all ranks. Returns the same
/// code on all ranks: kTimedOut if the wait of one rank timed out; the operation goes on then.
Status WaitTogether(Context& context, Event& event);

}  // namespace quire::kv
