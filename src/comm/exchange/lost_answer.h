/// Tells whether this rank lost an answer for want of memory.
///
/// Layer      comm
/// Threads    any
#pragma once

#include "comm/exchange/exchange.h"

namespace quire::comm {

/// Returns whether `call` ended with kOutOfMemory because this rank had no memory for what it
/// received: its request may have been served. Otherwise that code is the service's. Requires
/// call.Done().
bool AnswerWasLost(const Call& call);

}  // namespace quire::comm
