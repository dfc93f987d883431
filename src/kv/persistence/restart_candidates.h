/// The checkpoints that a restart may be from: found by rank 0, the same on all ranks.
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

/// A checkpoint that may be restarted from.
struct Candidate {
  uint64_t number = 0;
  std::string directory;
  CommitRecord record;
};

/// The complete checkpoints of database `name` under `path`, newest first: all, or the one with the
/// number `wanted`, if that is not 0. What is damaged is passed over, and logged.
///
/// Errors  kNotFound: there is none. kCorruption: all are damaged. kIo.
Result<std::vector<Candidate>> AgreeOnCandidates(const runtime::ContextState& context,
                                                 const std::string& path, const std::string& name,
                                                 uint64_t wanted);

/// Whether another checkpoint may serve where this was found in one.
bool IsDamage(const Status& status);

/// Says to the log that another one is taken, and why.
void LogPassedOver(const Candidate& candidate, const std::string& why);

}  // namespace quire::kv
