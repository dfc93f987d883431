/// One limit over all memory of a rank: what each database may take at most is set aside when it is
/// opened. Options that the program left at their defaults shrink to fit; options that it gave are
/// kept, or refused.
///
/// Layer      runtime
/// Threads    any
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "quire/database.h"

namespace quire::runtime {

/// What one database may take of a rank's memory. All bytes.
struct MemoryPlan {
  uint64_t memtables = 0;       ///< log segments and indexes: active, queued, and one in reserve
  uint64_t value_segments = 0;  ///< mapped: the one that is filled, and the next
  uint64_t merging = 0;         ///< hashes and index of the table that a merge writes
  uint64_t block_cache = 0;
  uint64_t local_cache = 0;
  uint64_t remote_cache = 0;
  uint64_t staging = 0;
  uint64_t total() const {
    return memtables + value_segments + merging + block_cache + local_cache + remote_cache +
           staging;
  }
};

/// What these options may take on a rank among `rank_count`.
MemoryPlan PlanFor(const DatabaseOptions& options, int rank_count);

/// Where a rank runs, and what it may use there at most.
struct RankMemory {
  uint64_t node_id = 0;
  uint64_t machine_bytes = 0;
};

class MemoryBudget {
 public:
  /// @param messages_bytes  of the limit, for answers that wait for room
  explicit MemoryBudget(uint64_t limit_bytes, uint64_t messages_bytes = 0)
      : limit_bytes_(limit_bytes),
        messages_bytes_(messages_bytes),
        planned_bytes_(messages_bytes) {}

  /// A quarter of what the cgroup or machine has, for each rank of the node.
  static uint64_t DefaultLimit(uint64_t machine_bytes, int ranks_on_node);
  /// The limit of each of `ranks`: what was `given`, or, where that is 0, the least default over
  /// all of them, so that all plan alike.
  static uint64_t LimitOver(const std::vector<RankMemory>& ranks, uint64_t given);
  /// The part of a limit that answers to other ranks may take while these do not take them.
  static uint64_t MessagesShare(uint64_t limit_bytes, int rank_count);

  /// Sets memory aside for a database, and shrinks what in `options` has its default. A pure
  /// function of the options, the limit and what was set aside before: the same on all ranks that
  /// opened the same databases.
  ///
  /// Errors  kInvalidArgument  What was given does not fit: names the need, what is left, and the
  /// largest part.
  Result<MemoryPlan> Take(DatabaseOptions* options, int rank_count);
  /// Gives back what Take set aside.
  void Give(const MemoryPlan& plan);

  uint64_t limit_bytes() const { return limit_bytes_; }
  uint64_t messages_bytes() const { return messages_bytes_; }
  uint64_t planned_bytes() const;

 private:
  const uint64_t limit_bytes_;
  const uint64_t messages_bytes_;
  mutable std::mutex mutex_;
  uint64_t planned_bytes_;
};

}  // namespace quire::runtime
