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

/// Looks who sees what, and locks the parts against writers. Collective; the same on all ranks.
/// kCorruption: a part that no rank sees. kBusy: a process still writes to one. kUnsupported:
/// several older generations on storages that ranks do not share.
Result<OlderParts> AssignOlderParts(const runtime::ContextState& context,
                                    GenerationChain::Options options);

/// Whether the only one of these generations, of as many ranks as there are, lies where fewer ranks
/// put it, by turns, and some rank does not see its own part: what a restart on fewer nodes leaves.
/// Collective; the same on all ranks. Cost: one message round where each sees its own.
Result<bool> WasCopiedByFewerRanks(const runtime::ContextState& context,
                                   const GenerationChain::Options& options);

}  // namespace quire::kv
