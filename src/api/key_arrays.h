/// Arrays of keys, or of values, as programs in C give them: pointers and sizes.
///
/// Layer      api
/// Threads    pure functions
#pragma once

#include <cstddef>
#include <vector>

#include "api/handles.h"

namespace quire::api {

/// What is wrong with `count` keys that a program gives with their sizes.
inline Status CheckArrays(size_t count, const void* const* keys, const size_t* key_sizes) {
  if (count > 0 && (keys == nullptr || key_sizes == nullptr)) return NullArgument("keys");
  return Status();
}

/// They, checked.
inline std::vector<Slice> SlicesOf(size_t count, const void* const* keys, const size_t* key_sizes) {
  std::vector<Slice> list;
  list.reserve(count);
  for (size_t i = 0; i < count; ++i) list.push_back(Bytes(keys[i], key_sizes[i]));
  return list;
}

}  // namespace quire::api
