#include "partition/dataset_writer.h"

#include <utility>

#include "base/coding.h"
#include "base/hash.h"
#include "base/out_of_memory.h"
#include "io/machine.h"
#include "log/record.h"
#include "partition/value_file.h"
#include "runtime/agreement.h"

namespace quire::partition {
namespace {

constexpr char kUnknownText[] =
    "whether the epoch is complete is not known before the dataset is opened again";

// A rank of which others have not heard may have heard of them: it must not be asked anything more,
// since what it answers may be to another question.
bool HeardByAll(const Status& agreed) {
  return agreed.code() != Code::kTimedOut && agreed.code() != Code::kPeerFailed;
}

}  // namespace

DatasetWriterImpl::DatasetWriterImpl(OpenDataset dataset)
    : dataset_(std::move(dataset)),
      route_(static_cast<uint32_t>(dataset_.core->rank()),
             static_cast<uint32_t>(dataset_.core->size()), dataset_.options.grid_ranks_min),
      lane_(std::make_shared<Lane>(
          dataset_.core->manual_background ? nullptr : dataset_.core->executor.get(),
          dataset_.core->exchange.get())),
      pairs_(
          lane_.get(),
          [part = dataset_.part.get()](PairBuffer* buffer, bool only) {
            return part->AddTable(buffer, only);
          },
          dataset_.options.table_bytes),
      collector_(dataset_.options, route_, lane_.get(), dataset_.part.get()),
      shuffle_(std::make_unique<Shuffle>(
          Shuffle::Options{dataset_.core, dataset_.number, dataset_.options, dataset_.session},
          route_, &collector_)),
      attempt_(dataset_.session) {}

DatasetWriterImpl::~DatasetWriterImpl() {
  shuffle_.reset();  // nothing more comes
  lane_->Rest();     // it writes into what goes now
}

Status DatasetWriterImpl::CheckBegun() const {
  if (!broken_.ok()) return broken_;
  if (epoch_.has_value()) return Status();
  return Status(Code::kInvalidArgument, "no epoch has begun: call BeginEpoch first");
}

Status DatasetWriterImpl::BeginEpoch(uint64_t number) {
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
  if (key.empty() || key.size() > log::kKeyBytesMax) {
    return Status(Code::kInvalidArgument,
                  "a key of " + std::to_string(key.size()) + " bytes: keys have 1 to 65536");
  }
  if (value.size() <= log::kValueBytesMax) return Status();
  return Status(Code::kInvalidArgument, "a value of " + std::to_string(value.size()) +
                                            " bytes: values have up to 4294967295");
}

Status DatasetWriterImpl::Put(Slice key, Slice value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  QUIRE_RETURN_IF_ERROR(CheckBegun());
  QUIRE_RETURN_IF_ERROR(CheckPair(key, value));
  QUIRE_RETURN_IF_ERROR(failed_);
  failed_ = base::OrOutOfMemory([&] {
    if (dataset_.options.format == DatasetFormat::kBase) return Travel(key, value);
    return Keep(key, value);
  });
  QUIRE_RETURN_IF_ERROR(failed_);
  ++statistics_.pairs;
  statistics_.pair_bytes += key.size() + value.size();
  return Status();
}

// The pair stays here, and something of it travels.
Status DatasetWriterImpl::Keep(Slice key, Slice value) {
  PartWriter& part = *dataset_.part;
  if (dataset_.options.format == DatasetFormat::kPointer) {
    const std::string pointer = EncodePointer({route_.rank(), part.values_end()});
    QUIRE_RETURN_IF_ERROR(part.AddValue(value));
    return Travel(key, pointer);
  }
  if (!pairs_.filling().Fits(key.size(), value.size())) {
    if (!pairs_.spare_free()) ++statistics_.put_waits;
    QUIRE_RETURN_IF_ERROR(
        lane_->WaitUntil("a table to be written", [this] { return pairs_.spare_free(); }));
    QUIRE_RETURN_IF_ERROR(lane_->status());
    pairs_.Turn();
  }
  pairs_.filling().Add(key, value, route_.rank());
  return Travel(key, {});
}

Status DatasetWriterImpl::Travel(Slice key, Slice value) {
  bool waited = false;
  const Status added = shuffle_->Add({base::HashKey(key), key, value}, &waited);
  if (waited) ++statistics_.put_waits;
  return added;
}

// Every rank comes through here, with the number that it began, or without.
Status DatasetWriterImpl::AgreeOnEpoch() {
  const Status begun = CheckBegun();
  return runtime::AgreeOn(*dataset_.core->exchange, begun,
                          begun.ok() ? std::to_string(*epoch_) : std::string(),
                          "the epoch that ends");
}

Status DatasetWriterImpl::EndEpoch() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Outcome outcome = Outcome::kUnknown;
  Status written = base::OrOutOfMemory([&] { return WriteEpoch(&outcome); });
  if (outcome == Outcome::kComplete) {
    dataset_.last_epoch = epoch_;
    dataset_.part->Keep();
  } else if (outcome == Outcome::kGone) {
    if (broken_.ok()) broken_ = Discard();
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

// At return, what all ranks have put is where it belongs.
Status DatasetWriterImpl::SendAll() {
  QUIRE_RETURN_IF_ERROR(AgreeOnEpoch());
  Status mine = failed_;
  if (mine.ok()) {
    mine = base::OrOutOfMemory([this] {
      pairs_.Finish();
      return lane_->status();
    });
  }
  return shuffle_->Flush(mine);
}

// Where memory runs out amid what ranks do together, or one of them is not heard of, they are no
// longer at one place: *outcome stays kUnknown then.
Status DatasetWriterImpl::WriteEpoch(Outcome* outcome) {
  const Status sent = SendAll();
  if (!sent.ok()) {
    if (HeardByAll(sent)) *outcome = Outcome::kGone;
    return sent;
  }
  const Status mine = base::OrOutOfMemory([this] {
    collector_.Finish();
    lane_->Run([this] {
      const Status before = lane_->status();
      return before.ok() ? dataset_.part->Seal(*epoch_, attempt_) : before;
    });
    return lane_->Drain();
  });
  // From here on rank 0 may find that all is well and publish the epoch while this rank hears of no
  // answer: then nothing of it may be taken back.
  const Result<uint64_t> pair_count = SumOfPairs(mine);
  if (!pair_count.ok()) {
    if (HeardByAll(pair_count.status())) *outcome = Outcome::kGone;
    return pair_count.status();
  }
  comm::Exchange& exchange = *dataset_.core->exchange;
  const Status published =
      exchange.Agree(base::OrOutOfMemory([&] { return Publish(*pair_count); }));
  if (published.ok()) {
    *outcome = Outcome::kComplete;
  } else if (HeardByAll(published) && exchange.Agree(Unpublish()).ok()) {
    *outcome = Outcome::kGone;
  }
  return published;
}

// Every rank has sealed its part. What they say has the attempt in it: a rank that was given up and
// is in another call says something else, and that is no yes.
Result<uint64_t> DatasetWriterImpl::SumOfPairs(const Status& sealed) {
  std::string mine;
  base::PutFixed(&mine, attempt_);
  base::PutFixed(&mine, dataset_.part->pair_count());
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> parts,
                         runtime::GatherAgreed(*dataset_.core->exchange, sealed, mine));
  uint64_t sum = 0;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    base::Reader reader(parts[rank]);
    uint64_t attempt = 0;
    uint64_t count = 0;
    if (!reader.Fixed(&attempt) || !reader.Fixed(&count) || attempt != attempt_) {
      return Status(Code::kInvalidArgument,
                    "rank " + std::to_string(rank) + " is not at the end of this epoch");
    }
    sum += count;
  }
  return sum;
}

// Rank 0: from now on the epoch is there.
Status DatasetWriterImpl::Publish(uint64_t pair_count) {
  if (route_.rank() != 0) return Status();
  dataset_.epochs.push_back({*epoch_, attempt_, pair_count, io::UnixTime(), route_.size()});
  return WriteEpochs();
}

// Rank 0: it is not there any more, if it ever was.
Status DatasetWriterImpl::Unpublish() {
  std::vector<EpochRecord>& epochs = dataset_.epochs;
  if (epochs.empty() || epochs.back().attempt != attempt_) return Status();
  epochs.pop_back();
  return WriteEpochs();
}

Status DatasetWriterImpl::WriteEpochs() {
  return io::ReplaceFile(*dataset_.core->fs, dataset_.directory + "/" + kEpochsName,
                         EncodeEpochs(dataset_.epochs, dataset_.descriptor.id));
}

// As if the epoch had not begun.
Status DatasetWriterImpl::Discard() {
  shuffle_->Drop();
  const Status drained = lane_->Drain();
  if (!lane_->idle()) {
    return drained.WithContext("what is left of an epoch that failed is being written still");
  }
  lane_->Forgive();
  pairs_.Drop();
  collector_.Drop();
  return dataset_.part->Rewind();
}

Status DatasetWriterImpl::Finish() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Status mine = broken_;
  if (mine.ok() && epoch_.has_value()) {
    mine = Status(Code::kInvalidArgument,
                  "the epoch " + std::to_string(*epoch_) + " has begun: end it first");
  }
  QUIRE_RETURN_IF_ERROR(dataset_.core->exchange->Agree(mine));
  dataset_.lock.reset();
  broken_ = Status(Code::kInvalidArgument, "the dataset was finished: open it again");
  return Status();
}

DatasetWriterStatistics DatasetWriterImpl::Statistics() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  DatasetWriterStatistics statistics = statistics_;
  const SenderCounts sent = shuffle_->counts();
  statistics.received = collector_.received();
  statistics.sent_batches = sent.batches;
  statistics.sent_bytes = sent.bytes;
  statistics.refused_batches = sent.refused;
  statistics.buffer_bytes_max = shuffle_->buffer_bytes_max();
  statistics.table_bytes = dataset_.part->table_bytes();
  statistics.map_bytes = dataset_.part->map_bytes();
  return statistics;
}

}  // namespace quire::partition
