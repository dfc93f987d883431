/// The doors through which programs come in: one rank alone, and the ranks of a communicator.
///
/// Layer      api
/// Threads    collective
#pragma once

#include <memory>
#include <string>

#include "quire/database.h"

namespace quire::api {

/// As Context::OpenSerial and OpenContext. The path takes no memory outside of the call, where a
/// rank without it would leave the others waiting.
Result<std::unique_ptr<Context>> OpenAlone(Slice repository, const ContextOptions& options);
Result<std::unique_ptr<Context>> OpenTogether(int communicator, Slice repository,
                                              const ContextOptions& options);

}  // namespace quire::api

namespace quire QUIRE_EXPORT {

/// Declared again as in quire/mpi.h, which cannot be included without <mpi.h>.
Result<std::unique_ptr<Context>> OpenContextFortran(int communicator, const std::string& repository,
                                                    const ContextOptions& options);

}  // namespace quire
