/// Restart: recreates a database from a checkpoint.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 4.3; docs/decisions/0009-persistence.md
/// Encoding   docs/format/checkpoint.md, docs/format/database.md
/// Threads    collective
/// Invariants until everything is copied and compared with its sums there is no database, or still
///            the one that is to be replaced
#pragma once

#include <memory>
#include <string>

#include "quire/database.h"
#include "runtime/context_state.h"
#include "runtime/job.h"

namespace quire::kv {

/// Starts a restart, as Context::Restart does.
Result<std::unique_ptr<Event>> StartRestart(const std::shared_ptr<runtime::ContextState>& context,
                                            uint32_t number, const std::string& path,
                                            const std::string& name, const RestartOptions& options);

}  // namespace quire::kv
