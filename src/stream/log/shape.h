/// The shape of an object's bytes, and whether it fits their size.
///
/// Layer      stream
/// Threads    pure functions
#pragma once

#include <cstddef>
#include <cstdint>

#include "quire/status.h"
#include "quire/stream.h"

namespace quire::stream {

constexpr size_t kExtentsMax = 8;
constexpr size_t kElementTypes = 13;

/// kInvalidArgument unless an object of `bytes` (1 ..) can have this shape: a known element, no
/// extent of 0, and their product is `bytes`. Without extents `bytes` are whole elements.
Status CheckShape(uint64_t bytes, const StreamShape& shape);
/// The same without words.
bool ShapeFits(uint64_t bytes, const StreamShape& shape);

}  // namespace quire::stream
