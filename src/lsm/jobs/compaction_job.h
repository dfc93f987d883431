/// One merge: neighbouring runs become one, or one table of a run is rewritten. On the way values
/// are moved out of value segments that are mostly dead.
///
/// Layer      lsm (internal)
/// Source     PapyrusKV, SC17, section 2.4 (compaction); WiscKey, FAST16, section 3.3.2
/// Threads    one thread; Run once
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "lsm/jobs/job_parts.h"
#include "lsm/version/version.h"
#include "lsm/vlog/value_resolver.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "table/entry_iterator.h"

namespace quire::lsm {

struct CompactionInputs {
  std::vector<std::shared_ptr<const Run>> runs;      ///< neighbours
  std::vector<std::shared_ptr<TableHandle>> tables;  ///< tables of these runs that are merged
  bool bottom = false;                               ///< no older data lies behind the runs
  std::set<uint64_t> collect;                        ///< value segments to be emptied on the way

  uint64_t bytes() const;
  /// Returns the size of the prefix that all keys share: that of the smallest and the largest one.
  size_t CommonKeyBytes() const;
  std::vector<table::RangeTombstone> Tombstones() const;
  /// Return iterators that read ahead and do not change the cache.
  std::vector<std::unique_ptr<table::EntryIterator>> Entries() const;
};

class CompactionJob {
 public:
  /// Calls of the database that a merge makes.
  struct Calls {
    /// Called after so many bytes were merged: does what cannot wait. True: the merge must be given
    /// up.
    std::function<bool(uint64_t merged_bytes)> interrupted;
    std::function<Status(Slice key, Slice value, log::ValueRef* reference)> append_value;
    std::function<void(const Status& failure)> log_failure;
    const ValueResolver* values = nullptr;
  };
  /// `inputs` outlive the job.
  CompactionJob(JobParts parts, const CompactionInputs& inputs, Calls calls)
      : parts_(std::move(parts)), inputs_(inputs), calls_(std::move(calls)) {}

  /// Merges, and publishes the outcome.
  ///
  /// Errors  as of VersionSet::Publish, and those of reading the tables; on any of them the inputs
  ///         stay as they are. kBusy: `interrupted` returned true.
  Status Run();

 private:
  class ValueMover;
  Status MergeEntries(RunWriter& writer, ValueMover& sink);
  RunEdit Edit() const;

  const JobParts parts_;
  const CompactionInputs& inputs_;
  const Calls calls_;
};

}  // namespace quire::lsm
