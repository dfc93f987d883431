/// The sizes that keys, values and arguments of updates may have.
///
/// Layer      kv
/// Encoding   docs/format/record.md
/// Threads    pure functions
#pragma once

#include <cstdint>

#include "log/record.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::kv {

/// The largest size of an update's argument. The argument travels as the value of a record, behind
/// the function's number.
constexpr uint64_t kArgumentBytesMax = log::kValueBytesMax - sizeof(uint32_t);

/// Return the error of a pair or update whose sizes are out of range.
Status ValueSizeError(Slice value);
Status ArgumentSizeError(Slice argument);

/// Checks a pair, or a key alone. kInvalidArgument: a size is out of range.
inline Status CheckSizes(Slice key, Slice value) {
  if (!log::IsKeySize(key.size())) [[unlikely]]
    return log::KeySizeError(key.size());
  if (value.size() > log::kValueBytesMax) [[unlikely]]
    return ValueSizeError(value);
  return Status();
}
/// Checks an update of `key`. kInvalidArgument: a size is out of range.
inline Status CheckUpdateSizes(Slice key, Slice argument) {
  QUIRE_RETURN_IF_ERROR(CheckSizes(key, {}));
  if (argument.size() > kArgumentBytesMax) [[unlikely]]
    return ArgumentSizeError(argument);
  return Status();
}

}  // namespace quire::kv
