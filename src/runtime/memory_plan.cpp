#include "runtime/memory_plan.h"

namespace quire::runtime {
namespace {

// In addition to those in the flushing queue: the active MemTable, and the one being prepared.
constexpr uint64_t kMemTablesBesidesQueue = 2;
constexpr uint64_t kValueSegments = 2;
// A table's filter is built from a list of hashes: 8 bytes for each pair, which has some 32 bytes
// or more.
constexpr uint64_t kMergingShare = 4;
// An index has at least one slot of 8 bytes for each 64 bytes of its segment, rounded up to a power
// of two.
constexpr uint64_t kIndexShare = 4;
// Pairs go into one buffer while the other one is made into a table, or into a map. Making a map
// takes another 24 bytes for each pair of 16 bytes.
constexpr uint64_t kBuffers = 2;
constexpr uint64_t kMapHalves = 3;

}  // namespace

MemoryPlan PlanFor(const DatabaseOptions& options, int rank_count) {
  MemoryPlan plan;
  const StorageOptions& storage = options.storage;
  const uint64_t memtable = storage.memtable_bytes + storage.memtable_bytes / kIndexShare;
  plan.memtables =
      memtable * (static_cast<uint64_t>(storage.flushing_queue_length) + kMemTablesBesidesQueue);
  plan.value_segments = kValueSegments * storage.value_segment_bytes;
  plan.merging = storage.table_bytes_max / kMergingShare;
  plan.block_cache = storage.cache_bytes;
  plan.local_cache = options.local_cache_bytes;
  if (rank_count > 1) {
    plan.remote_cache = options.remote_cache_bytes;
    plan.staging = options.remote_memtable_bytes;
  }
  return plan;
}

DatasetMemoryPlan PlanFor(const DatasetOptions& options, int rank_count) {
  DatasetMemoryPlan plan;
  plan.partition = kBuffers * options.partition_bytes;
  if (options.format != DatasetFormat::kBase && options.format != DatasetFormat::kPointer) {
    plan.tables = kBuffers * options.table_bytes;
    plan.partition += options.partition_bytes / 2 * kMapHalves;
  }
  const auto ranks = static_cast<uint64_t>(rank_count);
  const bool grid = ranks >= options.grid_ranks_min;
  const uint64_t hops = grid ? 2 : 1;
  uint64_t width = 1;
  while (width * width < ranks) ++width;
  plan.messages = hops * ((grid ? width : ranks) * options.batch_bytes + options.in_flight_bytes);
  return plan;
}

}  // namespace quire::runtime
