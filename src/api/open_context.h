/// The doors through which programs come in: one rank alone, and the ranks of a communicator.
///
/// Layer      api
/// Threads    collective
#pragma once

#include <memory>
#include <string>

#include "quire/database.h"

namespace quire QUIRE_EXPORT {

/// Declared again as in quire/mpi.h, which cannot be included without <mpi.h>.
Result<std::unique_ptr<Context>> OpenContextFortran(int communicator, const std::string& repository,
                                                    const ContextOptions& options);

}  // namespace quire
