/// Removes the files of a database that no reader sees any more.
///
/// Layer      lsm (internal)
/// Threads    any, under no lock and outside of an EpochGuard; Attach before all others
/// Invariants no file is removed unless the directory is still this opener's. A file that cannot be
///            removed takes room until the next open finds that nothing refers to it.
#pragma once

#include "lsm/jobs/job_parts.h"
#include "lsm/jobs/write_health.h"
#include "lsm/memtable/memtable_pool.h"
#include "quire/status.h"

namespace quire::lsm {

class Cleaner {
 public:
  /// Both outlive this; `parts` are complete before the first call. `health` logs failures.
  Cleaner(const JobParts& parts, const WriteHealth& health) : parts_(parts), health_(health) {}
  Cleaner(const Cleaner&) = delete;
  Cleaner& operator=(const Cleaner&) = delete;
  /// Called once, when the database is opened.
  void Attach(MemTablePool* pool) { pool_ = pool; }

  /// Frees the memory that no reader sees any more, and removes the files that went with it.
  void CleanUp() noexcept;

 private:
  Status RemoveUnreachable();

  const JobParts& parts_;
  const WriteHealth& health_;
  MemTablePool* pool_ = nullptr;  // set by Attach
};

}  // namespace quire::lsm
