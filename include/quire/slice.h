/// A view of bytes of any value, NUL included; ordered as unsigned bytes (memcmp).
///
/// Layer      public, below everything
/// Threads    a value; it does not own the bytes, which must outlive it
#pragma once

#include <string_view>

namespace quire {

using Slice = std::string_view;

}  // namespace quire
