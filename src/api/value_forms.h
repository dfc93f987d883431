/// The two forms in which the C interface returns a value: in allocated memory, or in a buffer.
///
/// Layer      api
/// Threads    as the source
#pragma once

#include <string>

#include "api/handles.h"
#include "api/malloc_place.h"
#include "base/core/own_buffer.h"

namespace quire::api {

/// Returns the value of `key` in `source` (a Database or a DatabaseReader), in memory that the
/// program frees.
template <typename Source>
Status GiveValue(Source& source, Slice key, void** value, size_t* value_size) {
  if (value == nullptr || value_size == nullptr) return NullArgument("value or value_size");
  MallocPlace place;
  QUIRE_RETURN_IF_ERROR(source.Get(key, base::OwnBuffer(place)));
  *value_size = place.size();
  *value = place.Release();
  return Status();
}

/// Copies the value into `buffer`; sets its size even if it does not fit.
template <typename Source>
Status FillBuffer(Source& source, Slice key, void* buffer, size_t capacity, size_t* value_size) {
  if (value_size == nullptr || (buffer == nullptr && capacity > 0)) {
    return NullArgument("buffer or value_size");
  }
  size_t size = 0;
  std::string too_large;
  auto place = [&](size_t wanted) {
    size = wanted;
    if (wanted <= capacity && buffer != nullptr) return static_cast<char*>(buffer);
    too_large.resize(wanted);
    return too_large.data();
  };
  QUIRE_RETURN_IF_ERROR(source.Get(key, base::OwnBuffer(place)));
  *value_size = size;
  if (size <= capacity) return Status();
  return Status(Code::kInvalidArgument, "the value has " + std::to_string(size) +
                                            " bytes, the buffer " + std::to_string(capacity));
}

}  // namespace quire::api
