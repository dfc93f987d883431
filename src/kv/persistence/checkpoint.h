/// Asynchronous checkpoints: captured between two collective steps, transferred in the background,
/// published by rank 0 with one rename.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 4.2; docs/decisions/0009-persistence.md
/// Encoding   docs/format/checkpoint.md
/// Threads    one; Start is collective
/// Invariants an existing checkpoint is complete, durable and verified; a failed one does not
///            change earlier ones
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

/// Returns kInvalidArgument unless `path` is absolute and has no newline.
Status CheckCheckpointPath(const std::string& path);

/// The checkpoints of one open database that are being written.
class RunningCheckpoints {
 public:
  /// Allocates the memory for one more, so that Start does not fail on one rank alone.
  void MakeRoom();
  /// Begins a checkpoint of `capture`. Collective, within Together(); the same errors on all ranks.
  Result<std::unique_ptr<Event>> Start(const std::shared_ptr<runtime::ContextState>& context,
                                       uint32_t number, const CheckpointRequest& request,
                                       std::shared_ptr<const engine::Capture> capture);
  /// Waits until all have ended, successfully or not: see their events.
  ///
  /// Errors  kTimedOut and others of runtime::Job::Wait: one has not ended.
  Status Await();
  /// Ends all without other ranks.
  void Stop();

 private:
  std::vector<std::shared_ptr<runtime::Job>> jobs_;
};

}  // namespace quire::kv
