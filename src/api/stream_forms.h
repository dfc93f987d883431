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

/// kInvalidArgument: `rank` is larger than MPI has them, as Fortran's negative ones become.
inline Status CheckRank(uint32_t rank) {
  if (rank <= INT32_MAX) return Status();
  return Status(Code::kInvalidArgument,
                "there is no rank " + std::to_string(static_cast<int32_t>(rank)));
}
/// The shape that a program gives for an object; null: bytes.
Result<StreamShape> ShapeOf(const quire_stream_shape* shape);
quire_stream_version VersionOf(const StreamVersion& version);
/// `texts` in one piece of memory for the program to free, a NUL behind each.
Status GiveTexts(const std::vector<std::string>& texts, quire_bytes** given, size_t* count);

}  // namespace quire::api
