/// The entry points that open a Context: for one rank alone, and for the ranks of a communicator.
///
/// Layer      api
/// Threads    collective
#pragma once

#include <memory>
#include <string>

#include "quire/database.h"

namespace quire::api {

/// Opens a context as Context::OpenSerial (OpenAlone) or OpenContext (OpenTogether). The path is a
/// Slice, because copying it outside of the call could fail for lack of memory on one rank and
/// leave the other ranks waiting.
Result<std::unique_ptr<Context>> OpenAlone(Slice repository, const ContextOptions& options);
Result<std::unique_ptr<Context>> OpenTogether(int communicator, Slice repository,
                                              const ContextOptions& options);

}  // namespace quire::api

namespace quire QUIRE_EXPORT {

/// Declared again as in quire/mpi.h, which cannot be included without <mpi.h>.
Result<std::unique_ptr<Context>> OpenContextFortran(int communicator, const std::string& repository,
                                                    const ContextOptions& options);

}  // namespace quire
