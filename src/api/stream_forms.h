/// The forms in which the C interface takes and gives what streams are made of.
///
/// Layer      api
/// Threads    pure functions
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "quire/quire_stream.h"
#include "quire/stream.h"

namespace quire::api {

/// Of a rank's part. Ranks are not negative numbers of 32 bits, as MPI has them; the larger ones are
/// what Fortran's negative ones become. kInvalidArgument.
Status CheckRank(uint32_t rank);
/// What a program says of an object; null: bytes.
Result<StreamShape> ShapeOf(const quire_stream_shape* shape);
quire_stream_version VersionOf(const StreamVersion& version);
/// `texts` in one piece of memory for the program to free, a NUL behind each.
Status GiveTexts(const std::vector<std::string>& texts, quire_bytes** given, size_t* count);

}  // namespace quire::api
