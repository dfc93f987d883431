/// Redistribution: the pairs of older generations move to their present owners, and the generations
/// go.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 4.3 (redistribution); docs/decisions/0009-persistence.md
/// Encoding   docs/format/message-kv.md (fill)
/// Threads    StartRedistribution: collective
/// Invariants each part is read by one rank; a pair is filled in only if its key is unknown, so
///            that newer writes and deletions stand; the generations are removed after every rank's
///            storage has the sent pairs, durable; a part that an iterator still reads stays until
///            the database is closed, or opened again. Memory: a buffer, some messages under way,
///            and one part at a time.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "engine/storage_engine.h"
#include "kv/generations/generation_chain.h"
#include "runtime/job.h"

namespace quire::kv {

struct RedistributionRequest {
  std::shared_ptr<const GenerationChain> chain;
  std::string database;
  std::string directory;                  ///< of the database
  uint32_t number = 0;                    ///< of the database, for channels
  std::shared_ptr<engine::StorageEngine> engine;  ///< this rank's
  /// by generation, by old rank: the rank that reads the part
  std::vector<std::vector<int>> readers;
  DatabaseDescriptor without;  ///< the descriptor afterwards
  /// Set if the database is being closed: then no warning says that it was interrupted.
  std::shared_ptr<std::atomic<bool>> closing = std::make_shared<std::atomic<bool>>(false);
};

/// Begins it, which is `*job`. The database serves its requests already. Collective, within
/// Together(); errors alike on all ranks.
Status StartRedistribution(const std::shared_ptr<runtime::ContextState>& context, uint32_t number,
                           RedistributionRequest request, std::shared_ptr<runtime::Job>* job);

}  // namespace quire::kv
