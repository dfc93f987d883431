/// The channels of the exchange, which a Context assigns: each is given by the number of an object,
/// which all ranks assign in the same order, and an operation of this object.
///
/// Layer      runtime
/// Encoding   docs/format/message-kv.md
/// Threads    pure functions
#pragma once

#include <cstdint>

namespace quire::runtime {

/// Returns the channel of an operation (below 16) of the object with that number.
constexpr uint32_t Channel(uint32_t number, uint32_t operation) {
  return number << 4 | operation;
}
/// The operation of background jobs, each of which has a number of its own.
constexpr uint32_t kJobOperation = 6;
/// The channel of pings, which every Context answers at once.
constexpr uint32_t kPingChannel = 0;

}  // namespace quire::runtime
