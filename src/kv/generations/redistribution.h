/// Redistribution: moves the pairs of older generations to their present owners, and removes these
/// generations.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 4.3 (redistribution); docs/decisions/0009-persistence.md
/// Encoding   docs/format/message-kv.md (fill)
/// Threads    one; all calls but Stop are collective
/// Invariants each part is read by one rank; a pair is filled in only if its key is unknown, so
///            that newer writes and deletions stand; the generations are removed after every rank's
///            storage contains the pairs that were sent to it, durably; a part that an iterator
///            still reads stays until the database is closed, or opened again. Memory: a buffer,
///            some messages under way, and one part at a time.
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

/// The redistribution of one open database, from its open to its close.
class Redistribution {
 public:
  explicit Redistribution(std::shared_ptr<runtime::ContextState> context)
      : context_(std::move(context)) {}

  /// The condition for which Begin waits: none; the end, successful or not; or that all pairs have
  /// moved.
  enum class Wait { kNothing, kEnd, kMoved };
  /// Moves the pairs to their owners, in the background or before it returns. The database serves
  /// its requests already. Collective, within Together(); the same errors on all ranks.
  Status Begin(uint32_t number, RedistributionRequest request, Wait wait);
  /// Waits for the end of the redistribution. If it failed and all ranks still have the older
  /// parts, begins it again; else all ranks return the failure. OK if none was begun. Collective,
  /// within Together().
  Status Await(uint32_t number);
  /// Ends the redistribution when the database is closed. Pairs that have not moved stay for the
  /// next open; if all have, removes the parts that iterators kept. Collective.
  void End();
  /// Ends it without other ranks, and releases the storage and the context. The last call.
  void Stop();

 private:
  void RemoveMovedParts();

  std::shared_ptr<runtime::ContextState> context_;
  std::shared_ptr<runtime::Job> job_;  ///< null: there was nothing to move
  RedistributionRequest to_move_;      ///< to begin it again; without its chain
  std::weak_ptr<const GenerationChain> old_parts_;
};

}  // namespace quire::kv
