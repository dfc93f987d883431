/// How the bytes of an object of a stream are written out: as they are, as numbers, or as NumPy's
/// file.
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

/// The header of an array in an .npy file; `bytes` is the array's size.
std::string NpyHeader(const StreamShape& shape, uint64_t bytes);
/// The elements as numbers, a row of the fastest extent on a line; an object without a type of
/// elements as printable text.
void WriteNumbers(const StreamShape& shape, Slice bytes, std::ostream* out);
/// The shape, as "float64 20 x 30".
std::string ShowShape(const StreamShape& shape);
/// Its element and its extents.
void SetShape(Json* object, const StreamShape& shape);

}  // namespace quire::tool
