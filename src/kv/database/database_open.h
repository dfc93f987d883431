/// Opens and destroys a database: the ranks agree on its properties, and files are created and
/// removed in a fixed order.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 2.3 (open is collective)
/// Encoding   docs/format/database.md
/// Threads    collective
/// Invariants after any error nothing is left locked or served, on any rank, and all ranks return
///            the same
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "quire/database.h"
#include "runtime/context_state.h"
#include "runtime/job.h"

namespace quire::kv {

Result<std::unique_ptr<Database>> OpenDatabase(
    const std::shared_ptr<runtime::ContextState>& context, const std::string& name,
    const DatabaseOptions& options);

/// Starts Context::DestroyAsync: at return the descriptor says that the database is being
/// destroyed.
Result<std::unique_ptr<Event>> StartDestruction(
    const std::shared_ptr<runtime::ContextState>& context, uint32_t number,
    const std::string& name);
/// Returns the names of the directories below the repository that have a descriptor, on any rank,
/// in order.
Result<std::vector<std::string>> ListDatabases(const runtime::ContextState& context);

}  // namespace quire::kv
