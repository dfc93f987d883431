/// A view of bytes: any byte, NUL included; ordered as unsigned bytes (memcmp).
///
/// Layer      public, below everything
/// Threads    a value; the bytes belong to somebody else and must outlive it
#pragma once

#include <string_view>

namespace quire {

using Slice = std::string_view;

}  // namespace quire
