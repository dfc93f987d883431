/// The runtime of a repository on one rank, over any transport and file system.
///
/// Layer      kv
/// Threads    NewContext: collective
#pragma once

#include <memory>
#include <string>

#include "comm/transport/transport.h"
#include "quire/database.h"
#include "runtime/context_state.h"

namespace quire::kv {

/// Returns the state of a Context, for its other users: datasets. All contexts come from
/// NewContext. kInvalidArgument in a forked child.
Result<std::shared_ptr<runtime::ContextState>> ContextStateOf(Context& context);

/// Makes a Context, as runtime::NewContextState does. Collective.
Result<std::unique_ptr<Context>> NewContext(const runtime::Environment& environment,
                                            std::unique_ptr<comm::Transport> transport,
                                            Slice repository, const ContextOptions& options);

}  // namespace quire::kv
