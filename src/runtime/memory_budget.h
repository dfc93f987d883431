/// One limit on all memory of a rank: the maximum of each database and each dataset's writer is
/// reserved when it is opened. Options with their default value are reduced to fit; options that
/// the program set are kept, or refused.
///
/// Layer      runtime
/// Threads    any
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "quire/database.h"
#include "quire/dataset.h"
#include "quire/status.h"

namespace quire::runtime {

class MemoryBudget;

/// A reservation from a budget. Destroying or assigning this object returns it to the budget.
class MemoryShare {
 public:
  MemoryShare() = default;
  MemoryShare(MemoryBudget* budget, uint64_t bytes) : budget_(budget), bytes_(bytes) {}
  MemoryShare(MemoryShare&& other) noexcept { *this = std::move(other); }
  MemoryShare& operator=(MemoryShare&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MemoryShare();

  uint64_t bytes() const { return bytes_; }

 private:
  MemoryBudget* budget_ = nullptr;
  uint64_t bytes_ = 0;
};

/// The machine of a rank, and the most that it may use there.
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

  /// Returns a quarter of the memory of the cgroup or machine, divided by the ranks of the node.
  static uint64_t DefaultLimit(uint64_t machine_bytes, int ranks_on_node);
  /// Returns the limit of each of `ranks`: the `given` value, or, if that is 0, the smallest
  /// default of all of them, so that all ranks plan alike.
  static uint64_t LimitOver(const std::vector<RankMemory>& ranks, uint64_t given);
  /// Returns the part of a limit for answers that other ranks have not received yet.
  static uint64_t MessagesShare(uint64_t limit_bytes, int rank_count);

  /// Reserves memory for a database, or a dataset's writer, and reduces those `options` that have
  /// their default. A pure function of the options, the limit and the earlier reservations, which
  /// count as at least `planned_bytes`: the result is the same on all ranks that pass the maximum
  /// over all ranks. The share must be destroyed before the budget.
  ///
  /// Errors  kInvalidArgument  The options that the program set do not fit; the text has the need,
  /// the remaining memory, and the largest part.
  Result<MemoryShare> Take(DatabaseOptions* options, int rank_count, uint64_t planned_bytes = 0);
  Result<MemoryShare> Take(DatasetOptions* options, int rank_count);

  uint64_t limit_bytes() const { return limit_bytes_; }
  uint64_t messages_bytes() const { return messages_bytes_; }
  uint64_t planned_bytes() const;

 private:
  friend class MemoryShare;
  uint64_t LeftLocked(uint64_t planned_bytes) const;
  MemoryShare TakeLocked(uint64_t bytes);
  Status Refuse(const std::string& what, uint64_t left) const;

  const uint64_t limit_bytes_;
  const uint64_t messages_bytes_;
  mutable std::mutex mutex_;
  uint64_t planned_bytes_;
};

}  // namespace quire::runtime
