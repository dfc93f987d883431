/// The runtime of a repository on one rank, over any transport and file system.
///
/// Layer      kv
/// Threads    NewContext: collective
#pragma once

#include <memory>
#include <string>

#include "comm/transport/transport.h"
#include "quire/database.h"
#include "runtime/core.h"

namespace quire::kv {

/// The state of a Context, for other users of it: datasets. All contexts come from NewContext.
/// kInvalidArgument in a forked child.
Result<std::shared_ptr<runtime::Core>> CoreOf(Context& context);

/// Collective. As runtime::NewCore.
Result<std::unique_ptr<Context>> NewContext(const runtime::Environment& environment,
                                            std::unique_ptr<comm::Transport> transport,
                                            Slice repository, const ContextOptions& options);

}  // namespace quire::kv
