/// Collects the entries for this rank's partition in an epoch: hashes of keys with the ranks that
/// wrote them, which become maps; or, in formats with keys, pairs, which become tables.
///
/// Layer      dataset
/// Source     FilterKV, CMU-PDL-19-104, section 3.3 (auxiliary tables)
/// Threads    any
/// Invariants a batch is taken whole or not at all; bytes from other ranks are not trusted
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "dataset/part/double_buffer.h"
#include "dataset/part/part_writer.h"
#include "dataset/part/serial_queue.h"
#include "dataset/route/route.h"
#include "dataset/route/shuffle_entry.h"
#include "filter/rank_map/rank_map.h"
#include "quire/dataset.h"

namespace quire::dataset {

class PartitionBuilder {
 public:
  PartitionBuilder(const DatasetOptions& options, const Route& route, SerialQueue* queue,
                   PartWriter* part);

  /// Takes the entries of a batch from `source`; if `marked`, entries of the ranks that the marks
  /// name, which `source` forwarded.
  ///
  /// Errors  kBusy: no room until the queue has made progress. kCorruption: they are no valid
  ///         entries; the rank that sends them is damaged.
  Status Take(uint32_t source, bool marked, Slice entries);
  /// Passes the rest of the epoch to the queue.
  void Finish();
  void Drop();
  uint64_t received() const;

 private:
  // Pairs of a hash and a rank, with what DoubleBuffer asks of a buffer.
  struct HashBuffer {
    std::vector<filter::KeyRank> pairs;
    bool empty() const { return pairs.empty(); }
    void Clear() { pairs.clear(); }
  };
  Status TakeHashes(uint32_t source, bool marked, Slice entries);
  bool AppendHashes(uint32_t source, bool marked, Slice entries,
                    std::vector<filter::KeyRank>* pairs) const;
  Status TakePairs(uint32_t source, bool marked, Slice entries);
  std::optional<uint32_t> TakeSource(uint32_t source, bool marked, Slice* entries) const;
  Status Misplaced(uint32_t source) const;

  const DatasetFormat format_;
  const Route route_;
  const uint64_t hash_count_max_;
  SerialQueue* const queue_;
  mutable std::mutex mutex_;
  DoubleBuffer<HashBuffer> hashes_;
  DoubleBuffer<PairBuffer> pairs_;
  uint64_t received_ = 0;
};

}  // namespace quire::dataset
