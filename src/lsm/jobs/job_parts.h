/// The parts of a database that its flushes and merges use, and their common last step: the new run
/// is published.
///
/// Layer      lsm (internal)
/// Threads    a job runs on one thread
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "lsm/jobs/counters.h"
#include "lsm/version/manifest.h"
#include "lsm/version/run_opener.h"
#include "lsm/version/run_writer.h"
#include "lsm/version/segment_tracker.h"
#include "lsm/version/snapshot_list.h"
#include "lsm/version/version_set.h"
#include "lsm/vlog/value_log.h"
#include "quire/status.h"

namespace quire::lsm {

/// The parts of the database that a job uses. Outlives the job.
struct JobParts {
  TablePlace tables;  ///< of the new ones
  CheckHeldFn check_held;
  std::mutex* mutex = nullptr;  ///< of the database
  VersionSet* versions = nullptr;
  ValueLog* values = nullptr;
  const SnapshotList* snapshots = nullptr;
  StorageCounters* counters = nullptr;
};

/// Returns a writer of a new run. `protection`: as RunWriter's.
RunWriter NewRunWriter(const JobParts& parts, SegmentTracker::Protection protection);

/// Finishes the tables of `writer` and publishes them in the place that `edit` names, beside
/// `edit->kept`. Removes them if that fails, unless the manifest may name them
/// (VersionSet::in_doubt). Returns their bytes.
Result<uint64_t> PublishRun(const JobParts& parts, RunWriter& writer, RunEdit* edit);

}  // namespace quire::lsm
