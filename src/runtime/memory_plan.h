/// The most memory of a rank that a database, or the writer of a dataset, may use.
///
/// Layer      runtime
/// Threads    pure functions
#pragma once

#include <cstdint>

#include "quire/database.h"
#include "quire/dataset.h"

namespace quire::runtime {

/// The memory of a rank that one database may use. All bytes.
struct MemoryPlan {
  uint64_t memtables = 0;       ///< log segments and indexes: active, queued, and one in reserve
  uint64_t value_segments = 0;  ///< mapped: the one that is being filled, and the next
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

/// Returns the memory that these options may use on one of `rank_count` ranks.
MemoryPlan PlanFor(const DatabaseOptions& options, int rank_count);

/// The memory that the writer of one dataset may use. All bytes.
struct DatasetMemoryPlan {
  uint64_t tables = 0;     ///< pairs that become a table, and those that arrive meanwhile
  uint64_t partition = 0;  ///< likewise for entries from other ranks, and the memory for building a
                           ///< map
  uint64_t messages = 0;   ///< batches that are being filled, and those in flight
  uint64_t total() const { return tables + partition + messages; }
};

/// Returns the memory that these options may use on one of `rank_count` ranks.
DatasetMemoryPlan PlanFor(const DatasetOptions& options, int rank_count);

}  // namespace quire::runtime
