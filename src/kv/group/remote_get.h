/// Gets under way: those that were answered at once, and those whose owner has been asked.
///
/// Layer      kv
/// Threads    one thread at a time
#pragma once

#include <memory>
#include <string>

#include "kv/group/file_group_reader.h"
#include "kv/owner/pair_cache.h"
#include "kv/protocol/counters.h"
#include "quire/database.h"
#include "runtime/context_state.h"

namespace quire::kv {

/// A get that is decided.
std::unique_ptr<PendingGet> NewReadyGet(Status status, std::string value);

/// A request to an owner, and the handling of its answer.
struct RemoteGet {
  std::shared_ptr<runtime::ContextState> context;
  uint32_t database_number = 0;
  int owner = 0;
  std::string key;
  uint64_t hash = 0;
  std::shared_ptr<PairCache> cache;  ///< the remote cache
  PairCache::Ticket ticket;
  std::shared_ptr<DatabaseCounters> counters;
  std::shared_ptr<FileGroupReader> group;  ///< null: the owner is asked for the value at once
};
/// Asks.
std::unique_ptr<PendingGet> NewRemoteGet(RemoteGet asked);

}  // namespace quire::kv
