/// Printing of the bytes of a stream's object: raw, as numbers, or as a NumPy file.
///
/// Layer      tools
/// Encoding   NumPy's .npy, version 1.0
/// Threads    pure functions
#pragma once

#include <ostream>
#include <string>

#include "quire/slice.h"
#include "quire/stream.h"
#include "tools/quire/output.h"

namespace quire::tool {

/// Returns the header of an array in an .npy file; `bytes` is the array's size.
std::string NpyHeader(const StreamShape& shape, uint64_t bytes);
/// Writes the elements as numbers, one row of the fastest-varying extent per line; writes an object
/// without an element type as printable text.
void WriteNumbers(const StreamShape& shape, Slice bytes, std::ostream* out);
/// Returns the shape, such as "float64 20 x 30".
std::string ShowShape(const StreamShape& shape);
/// Sets the element type and extents of `object`.
void SetShape(Json* object, const StreamShape& shape);

}  // namespace quire::tool
