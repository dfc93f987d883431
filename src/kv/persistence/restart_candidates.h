/// The checkpoints from which a restart is possible: rank 0 finds them, for all ranks.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 4.3; docs/decisions/0009-persistence.md
/// Encoding   docs/format/checkpoint.md
/// Threads    AgreeOnCandidates: collective; else any
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv/persistence/checkpoint_files.h"
#include "runtime/context_state.h"

namespace quire::kv {

/// A checkpoint from which a restart is possible.
struct Candidate {
  uint64_t number = 0;
  std::string directory;
  CommitRecord record;
};

/// Returns the complete checkpoints of database `name` under `path`, newest first: all, or the one
/// with the number `wanted`, if that is not 0. Damaged ones are ignored, and logged.
///
/// Errors  kNotFound: there is none. kCorruption: all are damaged. kIo.
Result<std::vector<Candidate>> AgreeOnCandidates(const runtime::ContextState& context,
                                                 const std::string& path, const std::string& name,
                                                 uint64_t wanted);

/// Returns whether another checkpoint may be used if this status was found in one.
bool IsDamage(const Status& status);

/// Logs that another checkpoint is used, and why.
void LogPassedOver(const Candidate& candidate, const std::string& why);

}  // namespace quire::kv
