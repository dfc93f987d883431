#include "runtime/memory_budget.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>

#include "base/text/units.h"
#include "runtime/memory_plan.h"

namespace quire::runtime {
namespace {

using base::kKiB;
using base::kMiB;
// Defaults do not shrink below these sizes.
constexpr uint64_t kMemTableBytesMin = kMiB;
constexpr uint64_t kValueSegmentBytesMin = 4 * kMiB;
constexpr uint64_t kTableBytesMin = 32 * kMiB;  // every table keeps a descriptor
constexpr uint64_t kCacheBytesMin = kMiB;
constexpr uint64_t kStagingBytesMin = kMiB;
constexpr uint64_t kDatasetBytesMin = kMiB;
// With memory_percent_max, sizes do not shrink below a 64th of those above, and stay within the
// ranges of the options.
constexpr uint64_t kSmallerShare = 64;
constexpr uint64_t kLeastBytes = 64 * kKiB;
constexpr uint64_t kMessagesShare = 16;
constexpr uint64_t kMessagesBytesMin = kMiB;
constexpr uint64_t kMessagesBytesMax = 64 * kMiB;

// One option that may shrink.
struct Shrinkable {
  uint64_t* value;
  uint64_t least;
  bool allowed;
  void Halve() {
    if (allowed) *value = std::max(std::min(*value, least), *value / 2);
  }
  bool CanShrink() const { return allowed && *value > least; }
};

std::string MiB(uint64_t bytes) {
  return std::to_string(bytes / kMiB) + " MiB";
}

// Halves the sizes that may shrink, until the total is `most` at most, or none can shrink any more.
template <typename Total>
void ShrinkTo(uint64_t most, std::span<Shrinkable> shrinkables, Total total) {
  while (total() > most) {
    const bool more = std::any_of(shrinkables.begin(), shrinkables.end(),
                                  [](const Shrinkable& each) { return each.CanShrink(); });
    if (!more) return;
    for (Shrinkable& each : shrinkables) each.Halve();
  }
}

// Shrinks to half of the remaining memory, or to the given percentage of it.
void Shrink(DatabaseOptions* options, int rank_count, uint64_t left) {
  const DatabaseOptions defaults;
  const bool all = options->memory_percent_max > 0;
  const auto one = [all](uint64_t* value, uint64_t unless_given, uint64_t least) -> Shrinkable {
    const uint64_t smaller = least == 0 ? 0 : std::max(least / kSmallerShare, kLeastBytes);
    return {value, all ? smaller : least, all || *value == unless_given};
  };
  StorageOptions& storage = options->storage;
  Shrinkable shrinkables[] = {
      one(&storage.memtable_bytes, defaults.storage.memtable_bytes, kMemTableBytesMin),
      one(&storage.value_segment_bytes, defaults.storage.value_segment_bytes,
          kValueSegmentBytesMin),
      one(&storage.table_bytes_max, defaults.storage.table_bytes_max, kTableBytesMin),
      one(&storage.cache_bytes, defaults.storage.cache_bytes, kCacheBytesMin),
      one(&options->remote_cache_bytes, defaults.remote_cache_bytes, 0),
      one(&options->remote_memtable_bytes, defaults.remote_memtable_bytes, kStagingBytesMin),
      {&options->local_cache_bytes, 0, all},
  };
  // With default options, half of the remaining memory is left for the next database.
  const uint64_t percent = all ? static_cast<uint64_t>(options->memory_percent_max) : 50;
  ShrinkTo(left / 100 * percent, shrinkables,
           [&] { return PlanFor(*options, rank_count).total(); });
}

// Shrinks to half of the remaining memory.
void Shrink(DatasetOptions* options, int rank_count, uint64_t left) {
  const DatasetOptions defaults;
  const auto one = [](uint64_t* value, uint64_t unless_given) -> Shrinkable {
    return {value, kDatasetBytesMin, *value == unless_given};
  };
  Shrinkable shrinkables[] = {
      one(&options->table_bytes, defaults.table_bytes),
      one(&options->partition_bytes, defaults.partition_bytes),
      one(&options->in_flight_bytes, defaults.in_flight_bytes),
  };
  ShrinkTo(left / 2, shrinkables, [&] { return PlanFor(*options, rank_count).total(); });
}

}  // namespace

MemoryShare::~MemoryShare() {
  if (budget_ == nullptr) return;
  const std::lock_guard<std::mutex> lock(budget_->mutex_);
  budget_->planned_bytes_ -= bytes_;
}

uint64_t MemoryBudget::DefaultLimit(uint64_t machine_bytes, int ranks_on_node) {
  return machine_bytes / 4 / static_cast<uint64_t>(std::max(1, ranks_on_node));
}

uint64_t MemoryBudget::LimitOver(const std::vector<RankMemory>& ranks, uint64_t given) {
  if (given != 0) return given;
  std::map<uint64_t, int> ranks_on_node;
  for (const RankMemory& rank : ranks) ++ranks_on_node[rank.node_id];
  uint64_t least = UINT64_MAX;
  for (const RankMemory& rank : ranks) {
    least = std::min(least, DefaultLimit(rank.machine_bytes, ranks_on_node[rank.node_id]));
  }
  return least;
}

uint64_t MemoryBudget::MessagesShare(uint64_t limit_bytes, int rank_count) {
  if (rank_count == 1) return 0;
  return std::clamp(limit_bytes / kMessagesShare, kMessagesBytesMin, kMessagesBytesMax);
}

Result<MemoryShare> MemoryBudget::Take(DatabaseOptions* options, int rank_count,
                                       uint64_t planned_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t left = LeftLocked(planned_bytes);
  Shrink(options, rank_count, left);
  const MemoryPlan plan = PlanFor(*options, rank_count);
  if (plan.total() <= left) return TakeLocked(plan.total());
  return Refuse("the database may take " + MiB(plan.total()) + " of memory (MemTables " +
                    MiB(plan.memtables) + ", value segments " + MiB(plan.value_segments) +
                    ", merging " + MiB(plan.merging) + ", block cache " + MiB(plan.block_cache) +
                    ", local cache " + MiB(plan.local_cache) + ", remote cache " +
                    MiB(plan.remote_cache) + ", staging " + MiB(plan.staging),
                left);
}

Result<MemoryShare> MemoryBudget::Take(DatasetOptions* options, int rank_count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t left = LeftLocked(0);
  Shrink(options, rank_count, left);
  const DatasetMemoryPlan plan = PlanFor(*options, rank_count);
  if (plan.total() <= left) return TakeLocked(plan.total());
  return Refuse("the dataset may take " + MiB(plan.total()) + " of memory (tables " +
                    MiB(plan.tables) + ", partition " + MiB(plan.partition) + ", messages " +
                    MiB(plan.messages),
                left);
}

uint64_t MemoryBudget::LeftLocked(uint64_t planned_bytes) const {
  return limit_bytes_ - std::min(limit_bytes_, std::max(planned_bytes_, planned_bytes));
}

MemoryShare MemoryBudget::TakeLocked(uint64_t bytes) {
  planned_bytes_ += bytes;
  return MemoryShare(this, bytes);
}

Status MemoryBudget::Refuse(const std::string& what, uint64_t left) const {
  return Status(Code::kInvalidArgument, what + "); " + MiB(left) +
                                            " of memory_bytes = " + MiB(limit_bytes_) +
                                            " are left: give the context more, or ask for less");
}

uint64_t MemoryBudget::planned_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return planned_bytes_;
}

}  // namespace quire::runtime
