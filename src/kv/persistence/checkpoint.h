/// Asynchronous checkpoints: captured between two collective steps, transferred in the background,
/// published by rank 0 with one rename.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 4.2; docs/decisions/0009-persistence.md
/// Encoding   docs/format/checkpoint.md
/// Threads    StartCheckpoint: collective
/// Invariants a checkpoint that is there is whole, durable and verified; a failed one leaves those
///            before it as they are
#pragma once

#include <memory>
#include <string>

#include "engine/storage_engine.h"
#include "runtime/context_state.h"
#include "runtime/job.h"

namespace quire::kv {

/// The database and the place of a checkpoint, and the number of checkpoints to keep.
struct CheckpointRequest {
  std::string path;  ///< the same on all ranks, absolute
  std::string database;
  std::string source;  ///< this rank's directory
  std::string partitioner;
  std::vector<std::string> options;
  int keep = 0;
};

/// Nothing in the way: `path` is absolute.
Status CheckCheckpointPath(const std::string& path);

/// Begins one of `capture`, which is `*job`. Collective, within Together(); errors alike on all
/// ranks.
Result<std::unique_ptr<Event>> StartCheckpoint(
    const std::shared_ptr<runtime::ContextState>& context, uint32_t number,
    const CheckpointRequest& request, std::shared_ptr<const engine::Capture> capture,
    std::shared_ptr<runtime::Job>* job);

}  // namespace quire::kv
