/// The channels of the exchange that a Context shares out: by a number, which all ranks give in the
/// same order, and an operation of what has the number.
///
/// Layer      runtime
/// Encoding   docs/format/message-kv.md
/// Threads    pure functions
#pragma once

#include <cstdint>

namespace quire::runtime {

/// The channel of an operation, below 16, of what has that number.
constexpr uint32_t Channel(uint32_t number, uint32_t operation) {
  return number << 4 | operation;
}
/// The operation of background jobs, each of which has a number of its own.
constexpr uint32_t kJobOperation = 6;
/// Answered by every Context at once: that it is there.
constexpr uint32_t kPingChannel = 0;

}  // namespace quire::runtime
