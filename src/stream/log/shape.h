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

/// Returns kInvalidArgument unless an object of `bytes` (1 ..) can have this shape: the element is
/// known, no extent is 0, and the product of extents and element size is `bytes`. Without extents,
/// `bytes` must be a multiple of the element size.
Status CheckShape(uint64_t bytes, const StreamShape& shape);
/// Returns whether CheckShape succeeds, without an error text.
bool ShapeFits(uint64_t bytes, const StreamShape& shape);

}  // namespace quire::stream
