#include "dataset/calls/dataset_writer.h"

#include <numeric>
#include <utility>
#include <vector>

#include "base/core/out_of_memory.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "dataset/part/value_file.h"
#include "dataset/route/patient_barrier.h"
#include "io/files/machine.h"
#include "log/record.h"
#include "runtime/agreement.h"

namespace quire::dataset {
namespace {

constexpr char kUnknownText[] =
    "whether the epoch is complete is not known before the dataset is opened again";

}  // namespace

DatasetWriterImpl::DatasetWriterImpl(OpenDataset dataset)
    : dataset_(std::move(dataset)),
      route_(static_cast<uint32_t>(dataset_.context->rank()),
             static_cast<uint32_t>(dataset_.context->size()), dataset_.options.grid_ranks_min),
      queue_(std::make_shared<SerialQueue>(
          dataset_.context->manual_background ? nullptr : dataset_.context->executor.get(),
          dataset_.context->exchange.get())),
      pairs_(
          queue_.get(),
          [part = dataset_.part.get()](PairBuffer* buffer, bool only) {
            return part->AddTable(buffer, only);
          },
          dataset_.options.table_bytes),
      builder_(dataset_.options, route_, queue_.get(), dataset_.part.get()),
      shuffle_(std::make_unique<Shuffle>(
          Shuffle::Options{dataset_.context, dataset_.number, dataset_.options, dataset_.session},
          route_, &builder_)),
      attempt_(dataset_.session) {
  const std::lock_guard<std::mutex> lock(dataset_.context->mutex);
  dataset_.context->progress_clients.push_back(this);
}

DatasetWriterImpl::~DatasetWriterImpl() {
  if (process_.forked()) {
    base::LeaveInChild(dataset_, queue_, shuffle_);
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(dataset_.context->mutex);
    std::erase(dataset_.context->progress_clients, static_cast<runtime::ProgressClient*>(this));
  }
  Stop();
}

void DatasetWriterImpl::Stop() {
  shuffle_.reset();  // no batch arrives after this
  queue_->WaitUntilIdle();  // its work writes into members that are destroyed next
}

// Stops the writer, whose calls return from now on why they do nothing.
void DatasetWriterImpl::Shutdown() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Stop();
  dataset_.part->LetGo();
  dataset_.lock.reset();
  broken_ = base::OrOutOfMemory([] {
    return Status(Code::kInvalidArgument,
                  "the context of the dataset's writer is closed: open both again");
  });
}

Status DatasetWriterImpl::CheckBegun() const {
  if (!broken_.ok()) return broken_;
  if (epoch_.has_value()) return Status();
  return Status(Code::kInvalidArgument, "no epoch has begun: call BeginEpoch first");
}

Status DatasetWriterImpl::BeginEpoch(uint64_t number) {
  QUIRE_RETURN_IF_ERROR(CheckProcess());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!broken_.ok()) return broken_;
  if (epoch_.has_value()) {
    return Status(Code::kInvalidArgument,
                  "the epoch " + std::to_string(*epoch_) + " has begun already: end it first");
  }
  if (dataset_.last_epoch.has_value() && number <= *dataset_.last_epoch) {
    return Status(Code::kInvalidArgument, "the epoch " + std::to_string(number) +
                                              " is not larger than the last complete one, " +
                                              std::to_string(*dataset_.last_epoch));
  }
  epoch_ = number;
  return Status();
}

Status DatasetWriterImpl::CheckPair(Slice key, Slice value) const {
  if (!log::IsKeySize(key.size())) return log::KeySizeError(key.size());
  if (value.size() <= log::kValueBytesMax) return Status();
  return Status(Code::kInvalidArgument, "a value of " + std::to_string(value.size()) +
                                            " bytes: values have up to 4294967295");
}

Status DatasetWriterImpl::Put(Slice key, Slice value) {
  QUIRE_RETURN_IF_ERROR(CheckProcess());
  QUIRE_RETURN_IF_ERROR(CheckPair(key, value));
  const uint64_t hash = base::HashKey(key);
  // A function of the program may take long, so no lock is held during its call.
  const Result<int> partition =
      dataset_.partitioning.OwnerOf(key, hash, static_cast<int>(route_.size()));
  const std::lock_guard<std::mutex> lock(mutex_);
  QUIRE_RETURN_IF_ERROR(CheckBegun());
  QUIRE_RETURN_IF_ERROR(dataset_.context->exchange->CheckThread());
  QUIRE_RETURN_IF_ERROR(failed_);
  if (partition.status().code() == Code::kInvalidArgument) return partition.status();
  failed_ = base::OrOutOfMemory([&] {
    QUIRE_RETURN_IF_ERROR(partition.status());
    const Pair pair{key, value, hash, static_cast<uint32_t>(*partition)};
    return dataset_.options.format == DatasetFormat::kBase ? Travel(pair, value) : Keep(pair);
  });
  QUIRE_RETURN_IF_ERROR(failed_);
  ++statistics_.pairs;
  statistics_.pair_bytes += key.size() + value.size();
  return Status();
}

// Stores the pair on this rank, and sends an entry for it to its partition.
Status DatasetWriterImpl::Keep(const Pair& pair) {
  PartWriter& part = *dataset_.part;
  if (dataset_.options.format == DatasetFormat::kPointer) {
    const std::string pointer = EncodePointer({route_.rank(), part.values_end()});
    QUIRE_RETURN_IF_ERROR(part.AddValue(pair.value));
    return Travel(pair, pointer);
  }
  if (!pairs_.filling().Fits(pair.key.size(), pair.value.size())) {
    if (!pairs_.spare_free()) ++statistics_.put_waits;
    QUIRE_RETURN_IF_ERROR(
        queue_->WaitUntil("a table to be written", [this] { return pairs_.spare_free(); }));
    QUIRE_RETURN_IF_ERROR(queue_->status());
    pairs_.Turn();
  }
  pairs_.filling().Add(pair.key, pair.value, route_.rank());
  return Travel(pair, {});
}

Status DatasetWriterImpl::Travel(const Pair& pair, Slice value) {
  bool waited = false;
  const Status added = shuffle_->Add({pair.hash, pair.key, value}, pair.partition, &waited);
  if (waited) ++statistics_.put_waits;
  return added;
}

Status DatasetWriterImpl::EndEpoch() {
  QUIRE_RETURN_IF_ERROR(CheckProcess());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (shuffle_ == nullptr) return broken_;
  QUIRE_RETURN_IF_ERROR(dataset_.context->exchange->CheckThread());
  Outcome outcome = Outcome::kUnknown;
  Status written = base::OrOutOfMemory([&] { return WriteEpoch(&outcome); });
  if (outcome == Outcome::kComplete) {
    dataset_.last_epoch = epoch_;
    dataset_.part->Keep();
  } else if (outcome == Outcome::kGone) {
    if (broken_.ok()) broken_ = base::OrOutOfMemory([this] { return Discard(); });
    if (!broken_.ok()) written = broken_;
  } else {
    if (broken_.ok()) broken_ = written.WithContext(kUnknownText);
    written = broken_;
  }
  epoch_.reset();
  failed_ = Status();
  ++attempt_;
  shuffle_->BeginAttempt(attempt_);
  return written;
}

// Takes a step together with all ranks, even if one of them failed. Each rank sends the attempt and
// the step along. Thus the others notice a rank that they gave up and that is in another call.
DatasetWriterImpl::Step DatasetWriterImpl::Take(StepName name, const Status& mine,
                                                uint64_t number) {
  constexpr size_t kHead = 2 * sizeof(uint64_t);
  char text[kHead + sizeof(uint64_t)];
  base::StoreLe(text, attempt_);
  base::StoreLe(text + sizeof(uint64_t), static_cast<uint64_t>(name));
  base::StoreLe(text + kHead, number);
  const Slice bytes(text, sizeof text);
  std::vector<uint64_t> numbers;
  const Status ready = base::OrOutOfMemory([&] {
    numbers.reserve(route_.size());
    return Status();
  });
  if (!ready.ok()) return {dataset_.context->exchange->Fail(ready), false, {}};
  runtime::Gathered gathered = runtime::Gather(*dataset_.context->exchange, mine, bytes);
  Step step{gathered.status, gathered.heard, std::move(numbers)};
  for (size_t rank = 0; rank < gathered.parts.size(); ++rank) {
    const std::string& part = gathered.parts[rank];
    if (part.size() != bytes.size() || part.compare(0, kHead, text, kHead) != 0) {
      const std::string why = "rank " + std::to_string(rank) + " is not at the end of this epoch";
      return {Status(Code::kInvalidArgument, why), false, {}};
    }
    step.numbers.push_back(base::LoadLe<uint64_t>(part.data() + kHead));
  }
  return step;
}

// Agrees on the epoch: all ranks have ended the same one.
DatasetWriterImpl::Step DatasetWriterImpl::AgreeOnEpoch(const Status& ready) {
  Step step = Take(StepName::kBegun, ready.ok() ? CheckBegun() : ready, epoch_.value_or(0));
  for (size_t rank = 0; step.status.ok() && rank < step.numbers.size(); ++rank) {
    if (step.numbers[rank] == step.numbers[0]) continue;
    step.status =
        Status(Code::kInvalidArgument,
               "the epoch that ends differs between ranks: " + std::to_string(step.numbers[0]) +
                   " on rank 0, " + std::to_string(step.numbers[rank]) + " on rank " +
                   std::to_string(rank) + "; begin the same on all ranks");
  }
  return step;
}

// Sends this rank's entries. When all ranks have done this, all entries are at their partitions.
Status DatasetWriterImpl::SendAll(PatientBarrier* barrier) {
  Status mine = failed_;
  if (mine.ok()) {
    mine = base::OrOutOfMemory([this] {
      pairs_.Finish();
      return queue_->status();
    });
  }
  return shuffle_->Flush(barrier, mine);
}

// Makes this rank's part of the epoch durable. Other ranks may take longer, as long as they live.
Status DatasetWriterImpl::Seal(PatientBarrier* barrier) {
  const Status mine = base::OrOutOfMemory([this] {
    builder_.Finish();
    // By value: it may run after Drain has timed out, when another epoch may have begun.
    queue_->Run([this, epoch = *epoch_, attempt = attempt_] {
      const Status before = queue_->status();
      return before.ok() ? dataset_.part->Seal(epoch, attempt) : before;
    });
    return queue_->Drain();
  });
  const Status all = barrier->Arrive(mine);
  return mine.ok() ? all : mine;
}

// Writes the epoch. If memory runs out during a collective call, or this rank does not receive the
// end of a step, *outcome stays kUnknown: rank 0 may find that all is well, and publish the epoch,
// without this rank's knowledge. Then nothing of the epoch may be taken back.
Status DatasetWriterImpl::WriteEpoch(Outcome* outcome) {
  runtime::ContextState& context = *dataset_.context;
  const uint32_t numbers[] = {context.TakeNumber(), context.TakeNumber()};
  std::optional<PatientBarrier> sending, sealing;
  // Made before the first step, so that no rank waits for one that cannot take part.
  const Status ready = base::OrOutOfMemory([&] {
    sending.emplace(dataset_.context, numbers[0], "the sending of batches of a dataset");
    sealing.emplace(dataset_.context, numbers[1], "the writing of an epoch of a dataset");
    return Status();
  });
  Step step = AgreeOnEpoch(ready);
  if (step.status.ok()) step = Take(StepName::kSent, SendAll(&*sending), 0);
  if (step.status.ok()) {
    const Status sealed = Seal(&*sealing);
    step = Take(StepName::kSealed, sealed, dataset_.part->pair_count());
  }
  if (!step.status.ok()) {
    if (step.heard) *outcome = Outcome::kGone;
    return step.status;
  }
  const uint64_t pairs = std::accumulate(step.numbers.begin(), step.numbers.end(), uint64_t{0});
  const Status mine = base::OrOutOfMemory([&] { return Publish(pairs); });
  step = Take(StepName::kPublished, mine, 0);
  if (step.status.ok()) {
    *outcome = Outcome::kComplete;
  } else if (step.heard && Take(StepName::kTakenBack, Unpublish(), 0).status.ok()) {
    *outcome = Outcome::kGone;
  }
  return step.status;
}

// On rank 0: publishes the epoch, which exists from now on.
Status DatasetWriterImpl::Publish(uint64_t pair_count) {
  if (route_.rank() != 0) return Status();
  dataset_.epochs.push_back({*epoch_, attempt_, pair_count, io::UnixTime(), route_.size()});
  Status written = WriteEpochs();
  if (written.code() == Code::kBusy) dataset_.epochs.pop_back();  // there is nothing to take back
  return written;
}

// On rank 0: removes the epoch from the list, if it was ever there.
Status DatasetWriterImpl::Unpublish() {
  std::vector<EpochRecord>& epochs = dataset_.epochs;
  if (epochs.empty() || epochs.back().attempt != attempt_) return Status();
  epochs.pop_back();
  return WriteEpochs();
}

// Writes the list of epochs. If the directory is moved, the locks of parts and the open files
// follow it, but its path does not: so this first checks which dataset is at the path.
Status DatasetWriterImpl::WriteEpochs() {
  io::FileSystem& fs = *dataset_.context->fs;
  QUIRE_ASSIGN_OR_RETURN(const DatasetDescriptor stored, ReadDescriptor(fs, dataset_.directory));
  if (stored.id != dataset_.descriptor.id) {
    return Status(Code::kBusy, dataset_.directory +
                                   ": another dataset was made in the place of this one, whose "
                                   "directory was moved or removed while it was open; close its "
                                   "writer");
  }
  return io::ReplaceFile(fs, dataset_.directory + "/" + kEpochsName,
                         EncodeEpochs(dataset_.epochs, dataset_.descriptor.id));
}

// Restores the state before the epoch.
Status DatasetWriterImpl::Discard() {
  shuffle_->Drop();
  const Status drained = queue_->Drain();
  if (!queue_->idle()) {
    return drained.WithContext("what is left of an epoch that failed is being written still");
  }
  queue_->ClearError();
  pairs_.Drop();
  builder_.Drop();
  return dataset_.part->Rewind();
}

Status DatasetWriterImpl::Finish() {
  QUIRE_RETURN_IF_ERROR(CheckProcess());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (shuffle_ == nullptr) return broken_;
  // Without memory for the text, this rank still takes part in the collective call.
  const Status mine = base::OrOutOfMemory([&] {
    if (!broken_.ok() || !epoch_.has_value()) return broken_;
    return Status(Code::kInvalidArgument,
                  "the epoch " + std::to_string(*epoch_) + " has begun: end it first");
  });
  Status finished = base::OrOutOfMemory([] {
    return Status(Code::kInvalidArgument, "the dataset was finished: open it again");
  });
  QUIRE_RETURN_IF_ERROR(dataset_.context->exchange->Agree(mine));
  dataset_.part->LetGo();
  dataset_.lock.reset();
  broken_ = std::move(finished);
  return Status();
}

DatasetWriterStatistics DatasetWriterImpl::Statistics() const {
  if (!process_.MayCall()) return {};  // a log sink may run under the mutex
  const std::lock_guard<std::mutex> lock(mutex_);
  DatasetWriterStatistics statistics = statistics_;
  if (shuffle_ == nullptr) return statistics;
  const ShuffleSenderCounts sent = shuffle_->counts();
  statistics.received = builder_.received();
  statistics.sent_batches = sent.batches;
  statistics.sent_bytes = sent.bytes;
  statistics.refused_batches = sent.refused;
  statistics.buffer_bytes_max = shuffle_->buffer_bytes_max();
  statistics.table_bytes = dataset_.part->table_bytes();
  statistics.map_bytes = dataset_.part->map_bytes();
  return statistics;
}

Result<std::unique_ptr<DatasetWriter>> NewDatasetWriter(
    const std::shared_ptr<runtime::ContextState>& context, const std::string& name,
    const DatasetOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(OpenDataset dataset, OpenForWriting(context, name, options));
  std::unique_ptr<DatasetWriter> writer;
  QUIRE_RETURN_IF_ERROR(runtime::Together(*context->exchange, [&] {
    writer = std::make_unique<DatasetWriterImpl>(std::move(dataset));
    return context->exchange->Agree(Status());
  }));
  return writer;
}

}  // namespace quire::dataset
