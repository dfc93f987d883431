/// The places of the parts of older generations, and the ranks that read them.
///
/// Layer      kv
/// Source     docs/decisions/0009-persistence.md
/// Threads    collective
#pragma once

#include <memory>
#include <vector>

#include "kv/generations/generation_chain.h"
#include "runtime/context_state.h"

namespace quire::kv {

struct OlderParts {
  std::shared_ptr<const GenerationChain> chain;  ///< null: there are no older generations
  std::vector<std::vector<int>> readers;  ///< by generation, by old rank: the rank that reads it
  bool shared = false;                    ///< every rank sees every part
};

/// Finds which rank sees which parts, and locks the parts against writers. Collective; the same on
/// all ranks. kCorruption: no rank sees some part. kBusy: a process still writes to a part.
/// kUnsupported: several older generations on storages that ranks do not share.
Result<OlderParts> AssignOlderParts(const runtime::ContextState& context,
                                    GenerationChain::Options options);

/// Returns true if the only one of these generations has one part per present rank, was copied by
/// turns by fewer ranks (a restart on fewer nodes), and some rank does not see its own part.
/// Collective; the same on all ranks. Cost: one message round if each rank sees its own.
Result<bool> WasCopiedByFewerRanks(const runtime::ContextState& context,
                                   const GenerationChain::Options& options);

}  // namespace quire::kv
