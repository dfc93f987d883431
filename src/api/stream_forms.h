/// Conversions between the C interface's forms of stream data and Quire's.
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

/// Returns kInvalidArgument if `rank` is larger than MPI's ranks can be (a negative rank of Fortran
/// becomes such a number).
inline Status CheckRank(uint32_t rank) {
  if (rank <= INT32_MAX) return Status();
  return Status(Code::kInvalidArgument,
                "there is no rank " + std::to_string(static_cast<int32_t>(rank)));
}
/// Returns the shape that a program passes for an object; null means bytes.
Result<StreamShape> ShapeOf(const quire_stream_shape* shape);
quire_stream_version VersionOf(const StreamVersion& version);
/// Copies `texts`, each followed by a NUL, into one piece of memory, which the program frees.
Status GiveTexts(const std::vector<std::string>& texts, quire_bytes** given, size_t* count);

}  // namespace quire::api
