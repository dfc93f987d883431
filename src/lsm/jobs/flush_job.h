/// One flush: an immutable MemTable becomes a run.
///
/// Layer      lsm (internal)
/// Source     PapyrusKV, SC17, section 2.4 (flushing)
/// Threads    one thread; Run once
#pragma once

#include <memory>
#include <utility>

#include "lsm/jobs/job_parts.h"
#include "lsm/memtable/memtable_pool.h"
#include "quire/status.h"

namespace quire::lsm {

class FlushJob {
 public:
  /// `memory`: the oldest immutable MemTable.
  FlushJob(JobParts parts, std::shared_ptr<PooledMemTable> memory)
      : parts_(std::move(parts)), memory_(std::move(memory)) {}

  /// Writes the tables, syncs what they refer to, and publishes them.
  ///
  /// Errors  as of VersionSet::Publish; on any of them the MemTable stays as it is.
  Status Run();

 private:
  Status WriteEntries(RunWriter& writer) const;

  const JobParts parts_;
  const std::shared_ptr<PooledMemTable> memory_;
};

}  // namespace quire::lsm
