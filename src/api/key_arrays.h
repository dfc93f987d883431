/// Arrays of keys or values from C programs: pointers and sizes.
///
/// Layer      api
/// Threads    pure functions
#pragma once

#include <cstddef>
#include <vector>

#include "api/handles.h"

namespace quire::api {

/// Checks `count` keys that a program passes with their sizes.
inline Status CheckArrays(size_t count, const void* const* keys, const size_t* key_sizes) {
  if (count > 0 && (keys == nullptr || key_sizes == nullptr)) return NullArgument("keys");
  return Status();
}

/// Returns the keys, which must have been checked.
inline std::vector<Slice> SlicesOf(size_t count, const void* const* keys, const size_t* key_sizes) {
  std::vector<Slice> list;
  list.reserve(count);
  for (size_t i = 0; i < count; ++i) list.push_back(Bytes(keys[i], key_sizes[i]));
  return list;
}

}  // namespace quire::api
