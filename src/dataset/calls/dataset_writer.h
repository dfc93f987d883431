/// Writes a partitioned dataset: a rank's pairs go into its own tables, and an entry for each pair
/// is sent to the key's partition; an epoch is complete on all ranks or absent.
///
/// Layer      dataset
/// Source     FilterKV, CMU-PDL-19-104, section 3; docs/decisions/0011-partitioned-datasets.md
/// Encoding   docs/format/dataset.md
/// Threads    Put: any, one at a time inside; the rest as DatasetWriter says
/// Invariants all ranks go through the same collectives, whatever fails on one of them
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/threads/forked_child.h"
#include "dataset/part/double_buffer.h"
#include "dataset/part/files.h"
#include "dataset/part/part_writer.h"
#include "dataset/part/serial_queue.h"
#include "dataset/route/partition_builder.h"
#include "dataset/route/patient_barrier.h"
#include "dataset/route/shuffle.h"
#include "io/paths/made_paths.h"
#include "quire/dataset.h"
#include "runtime/context_state.h"
#include "runtime/partitioning.h"

namespace quire::dataset {

/// An open dataset, as all ranks agreed on it.
struct OpenDataset {
  std::shared_ptr<runtime::ContextState> context;
  std::string directory;
  DatasetOptions options;
  runtime::Partitioning partitioning;
  DatasetDescriptor descriptor;
  uint32_t number = 0;   ///< its channels'
  uint64_t session = 0;  ///< random: attempts are counted from it
  std::optional<uint64_t> last_epoch;
  std::vector<EpochRecord> epochs;     ///< on rank 0
  std::unique_ptr<io::FileLock> lock;  ///< on rank 0
  io::MadePaths made;                  ///< until the ranks agree that the dataset is open, or
                                       ///< begins
  bool begins = false;                 ///< on rank 0: the dataset did not exist
  std::unique_ptr<PartWriter> part;
  runtime::MemoryShare memory;
};
/// Collective. Nothing is left locked on an error.
Result<OpenDataset> OpenForWriting(const std::shared_ptr<runtime::ContextState>& context,
                                   const std::string& name, const DatasetOptions& options);

class DatasetWriterImpl final : public DatasetWriter, private runtime::ProgressClient {
 public:
  explicit DatasetWriterImpl(OpenDataset dataset);
  ~DatasetWriterImpl() override;

  Status BeginEpoch(uint64_t number) override;
  Status Put(Slice key, Slice value) override;
  Status EndEpoch() override;
  std::optional<uint64_t> LastEpoch() const override { return dataset_.last_epoch; }
  Status Finish() override;
  DatasetWriterStatistics Statistics() const override;

 private:
  // ProgressClient
  void Progress() override {}
  void Shutdown() override;
  void Stop();
  Status CheckPair(Slice key, Slice value) const;
  /// A pair on its way.
  struct Pair {
    Slice key;
    Slice value;
    uint64_t hash;
    uint32_t partition;
  };
  Status Keep(const Pair& pair);
  Status Travel(const Pair& pair, Slice value);
  /// The result of the end of an epoch.
  enum class Outcome { kComplete, kGone, kUnknown };
  enum class StepName : uint64_t { kBegun, kSent, kSealed, kPublished, kTakenBack };
  /// The result of a step that all ranks take together at the end of an epoch.
  struct Step {
    Status status;
    bool heard;                     ///< from all ranks: every rank that did has the same status
    std::vector<uint64_t> numbers;  ///< that the ranks contributed
  };
  Step Take(StepName name, const Status& mine, uint64_t number);
  Step AgreeOnEpoch(const Status& ready);
  Status SendAll(PatientBarrier* barrier);
  Status Seal(PatientBarrier* barrier);
  Status WriteEpoch(Outcome* outcome);
  Status Publish(uint64_t pair_count);
  Status Unpublish();
  Status WriteEpochs();
  Status CheckBegun() const;
  Status CheckProcess() const { return process_.Check("the dataset"); }
  Status Discard();

  const base::OwnProcess process_;
  OpenDataset dataset_;
  const Route route_;
  std::shared_ptr<SerialQueue> queue_;
  DoubleBuffer<PairBuffer> pairs_;  ///< of this rank, in formats whose pairs stay
  PartitionBuilder builder_;
  std::unique_ptr<Shuffle> shuffle_;

  mutable std::mutex mutex_;       ///< guards what follows, and pairs_
  std::optional<uint64_t> epoch_;  ///< the one that has begun
  uint64_t attempt_;
  Status failed_;  ///< why a pair of the current epoch is incomplete
  Status broken_;  ///< why nothing more can be written
  DatasetWriterStatistics statistics_;
};

/// Collective, as DatasetWriter::Open: no rank has a writer alone.
Result<std::unique_ptr<DatasetWriter>> NewDatasetWriter(
    const std::shared_ptr<runtime::ContextState>& context, const std::string& name,
    const DatasetOptions& options);

}  // namespace quire::dataset
