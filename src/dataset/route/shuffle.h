/// Brings what travels of each pair to the key's partition: by batches, straight or over the grid,
/// bounded, with back-pressure.
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

  /// Batches of this attempt are taken from now on; those of later ones wait: ranks begin in
  /// turn.
  void BeginAttempt(uint64_t attempt);
  /// Sends one entry to `partition`, sooner or later. Waits while there is no room; *waited says
  /// whether.
  Status Add(const ShuffleEntry& entry, uint32_t partition, bool* waited);
  /// Collective. Sends the rest, and comes to `barrier` between: where all ranks come back with OK,
  /// their collectors have all that is for them. Its own failure, `mine` before others.
  Status Flush(PatientBarrier* barrier, const Status& mine);
  /// After a failure: forgets what is left, and takes nothing more of the attempt.
  void Drop();

  ShuffleSenderCounts counts() const;
  /// Batches in memory, the most there ever were.
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
