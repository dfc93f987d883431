/// The end of a write or update that was sent to its owner.
///
/// Layer      kv
/// Threads    any
#pragma once

#include <memory>
#include <string>

#include "comm/exchange/exchange.h"
#include "quire/status.h"

namespace quire::kv {

/// Waits for the answer to a request that writes. kOutOfMemory: the owner had no memory, and
/// nothing was stored. kTimedOut: it is unknown whether the write was stored; the deadline has
/// passed, or this rank had no memory to wait, or for the answer.
Status WaitForWrite(comm::Exchange& exchange, const std::shared_ptr<comm::Call>& call,
                    std::string* answer);

/// Sends `head` and `body` joined, and waits.
Status AskToWrite(comm::Exchange& exchange, int owner, uint32_t channel, Slice head, Slice body,
                  std::string* answer);

}  // namespace quire::kv
