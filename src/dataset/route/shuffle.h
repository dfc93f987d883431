/// Sends the entry of each pair to the key's partition: in batches, directly or over the grid, with
/// bounded memory and back-pressure.
///
/// Layer      dataset
/// Source     FilterKV, CMU-PDL-19-104, sections 2 and 3.1;
///            docs/decisions/0011-partitioned-datasets.md
/// Encoding   docs/format/message-dataset.md
/// Threads    Add: one at a time; BeginAttempt, Flush, Drop: the program's, all ranks alike
/// Invariants no service waits; what is refused is sent again; batches of an attempt that has ended
///            count for nothing
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "dataset/route/partition_builder.h"
#include "dataset/route/patient_barrier.h"
#include "dataset/route/route.h"
#include "dataset/route/shuffle_batcher.h"
#include "dataset/route/shuffle_entry.h"
#include "dataset/route/shuffle_sender.h"
#include "runtime/context_state.h"

namespace quire::dataset {

class Shuffle {
 public:
  struct Options {
    std::shared_ptr<runtime::ContextState> context;
    uint32_t number = 0;  ///< its channels'
    DatasetOptions dataset;
    uint64_t attempt = 0;  ///< the first
  };
  Shuffle(const Options& options, const Route& route, PartitionBuilder* builder);
  ~Shuffle();
  Shuffle(const Shuffle&) = delete;
  Shuffle& operator=(const Shuffle&) = delete;

  /// Accepts batches of this attempt from now on. Batches of later attempts wait, because ranks
  /// begin at different times.
  void BeginAttempt(uint64_t attempt);
  /// Queues one entry for `partition`. Waits while there is no room, and sets *waited accordingly.
  Status Add(const ShuffleEntry& entry, uint32_t partition, bool* waited);
  /// Sends the rest, arriving at `barrier` in between. Collective. If it returns OK on all ranks,
  /// their collectors have received all their entries. Returns this rank's own failure (`mine`
  /// first), else that of another rank.
  Status Flush(PatientBarrier* barrier, const Status& mine);
  /// Drops queued entries after a failure, and accepts no more batches of the attempt.
  void Drop();

  ShuffleSenderCounts counts() const;
  /// Returns the largest number of bytes of batches that was ever in memory.
  uint64_t buffer_bytes_max() const;

 private:
  std::shared_ptr<ShuffleSender> NewSender(uint32_t hop);
  Status OnBatch(uint32_t source, bool second_hop, Slice batch);
  Status PassOn(uint32_t source, Slice entries);
  Status PassOnLocked(uint32_t source, Slice entries);
  struct Passed {
    Slice entry;
    uint32_t partition;
  };
  std::optional<Passed> TakePassed(Slice* entries) const;
  void PumpSecond();
  static Status SendAll(ShuffleBatcher* batches, std::mutex* mutex, ShuffleSender* sender);
  void NoteBuffers();

  const Options options_;
  const Route route_;
  const bool names_partitions_;  ///< entries on a first hop of two begin with their partition
  PartitionBuilder* const builder_;
  comm::Exchange* const exchange_;
  std::shared_mutex taking_;  ///< guards these two; shared while a batch of the attempt is taken
  uint64_t attempt_;
  bool dropped_ = false;
  std::mutex first_mutex_;  ///< guards first_
  ShuffleBatcher first_;
  std::mutex second_mutex_;  ///< guards second_, of what is passed on
  ShuffleBatcher second_;
  std::shared_ptr<ShuffleSender> first_sender_;
  std::shared_ptr<ShuffleSender> second_sender_;
  std::shared_ptr<std::atomic<bool>> second_scheduled_;
  std::atomic<uint64_t> buffer_bytes_max_{0};
};

}  // namespace quire::dataset
