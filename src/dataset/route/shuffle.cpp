#include "dataset/route/shuffle.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/text/coding.h"
#include "dataset/route/patient_barrier.h"
#include "runtime/channel.h"

namespace quire::dataset {
namespace {

// The hops, in the low four bits of a dataset's channels.
constexpr uint32_t kFirstHop = 1;
constexpr uint32_t kLastHop = 2;

}  // namespace

Shuffle::Shuffle(const Options& options, const Route& route, PartitionBuilder* builder)
    : options_(options),
      route_(route),
      names_partitions_(route.grid() && options.dataset.partitioner != nullptr),
      builder_(builder),
      exchange_(options.context->exchange.get()),
      attempt_(options.attempt),
      first_(route.first_slots(), options.dataset.batch_bytes),
      second_(route.second_slots(), options.dataset.batch_bytes),
      second_scheduled_(std::make_shared<std::atomic<bool>>(false)) {
  first_sender_ = NewSender(route.grid() ? kFirstHop : kLastHop);
  second_sender_ = NewSender(kLastHop);
  BeginAttempt(options.attempt);  // before other ranks' batches of it arrive
  for (const uint32_t hop : {kFirstHop, kLastHop}) {
    exchange_->Serve(runtime::Channel(options_.number, hop),
                     [this, hop](int source, Slice batch, std::string* /*answer*/) {
                       return OnBatch(static_cast<uint32_t>(source), hop == kLastHop, batch);
                     });
  }
}

Shuffle::~Shuffle() {
  for (const uint32_t hop : {kFirstHop, kLastHop}) {
    exchange_->Serve(runtime::Channel(options_.number, hop), {});
  }
  first_sender_->Stop();
  second_sender_->Stop();
}

std::shared_ptr<ShuffleSender> Shuffle::NewSender(uint32_t hop) {
  ShuffleSender::Options sender;
  sender.exchange = exchange_;
  sender.channel = runtime::Channel(options_.number, hop);
  sender.held_bytes_max = options_.dataset.in_flight_bytes;
  sender.timeout_ms = options_.context->options.timeout_ms;
  // If a rank puts a key twice, the later value counts.
  sender.in_order = HasKeys(options_.dataset.format);
  sender.deliver = [this, hop](Slice batch) {
    return OnBatch(route_.rank(), hop == kLastHop, batch);
  };
  // Not a shared pointer: the context's own threads may be the last to release a sender.
  sender.work = [context = options_.context.get()] {
    return context->progress_queue->RunPending();
  };
  return std::make_shared<ShuffleSender>(std::move(sender));
}

void Shuffle::BeginAttempt(uint64_t attempt) {
  std::string head;
  base::PutFixed(&head, attempt);
  {
    const std::scoped_lock lock(first_mutex_, second_mutex_);
    first_.SetHead(head);
    second_.SetHead(head);
  }
  const std::unique_lock<std::shared_mutex> alone(taking_);
  attempt_ = attempt;
  dropped_ = false;
}

// Adds an entry. If it takes two hops, it is marked on the second.
Status Shuffle::Add(const ShuffleEntry& entry, uint32_t partition, bool* waited) {
  const uint32_t hop = route_.FirstHop(partition);
  const DatasetFormat format = options_.dataset.format;
  std::vector<ShuffleBatch> closed;
  {
    const std::lock_guard<std::mutex> lock(first_mutex_);
    const uint64_t bytes = EntryBytes(format, entry) + (names_partitions_ ? kPartitionBytes : 0);
    std::string* const room = first_.Room(route_.FirstSlot(hop), hop, bytes);
    if (names_partitions_) base::PutFixed(room, partition);
    PutEntry(format, entry, room);
    if (!first_.has_closed()) [[likely]]
      return Status();
    closed = first_.TakeClosed();
  }
  first_sender_->Queue(std::move(closed));
  NoteBuffers();
  first_sender_->Pump();
  if (!first_sender_->Full()) return first_sender_->status();
  *waited = true;
  return first_sender_->Wait(false);
}

Status Shuffle::OnBatch(uint32_t source, bool last_hop, Slice batch) {
  if (batch.size() < kBatchHeadBytes) {
    return Status(Code::kCorruption, "rank " + std::to_string(source) + " sent half a batch");
  }
  const auto attempt = base::LoadLe<uint64_t>(batch.data());
  const std::shared_lock<std::shared_mutex> taking(taking_);
  const auto ahead = static_cast<int64_t>(attempt - attempt_);
  if (ahead > 0) return Status(Code::kBusy);
  if (ahead < 0 || dropped_) return Status();
  batch.remove_prefix(kBatchHeadBytes);
  return base::OrOutOfMemory([&] {
    return last_hop ? builder_->Take(source, route_.grid(), batch) : PassOn(source, batch);
  });
}

// Forwards entries of a grid: they arrived along this row, and go on along this column.
Status Shuffle::PassOn(uint32_t source, Slice entries) {
  if (!route_.grid() || !route_.MayPass(source)) {
    return Status(Code::kCorruption,
                  "rank " + std::to_string(source) + " sent a batch to be passed on by another");
  }
  if (!second_sender_->status().ok()) return Status();  // reported when this rank flushes
  if (second_sender_->Full()) {
    PumpSecond();
    return Status(Code::kBusy);
  }
  QUIRE_RETURN_IF_ERROR(PassOnLocked(source, entries));
  NoteBuffers();
  PumpSecond();
  return Status();
}

Status Shuffle::PassOnLocked(uint32_t source, Slice entries) {
  char mark[kMarkBytes];
  base::StoreLe(mark, route_.MarkOf(source));
  const std::lock_guard<std::mutex> lock(second_mutex_);
  while (!entries.empty()) {
    const std::optional<Passed> passed = TakePassed(&entries);
    if (!passed.has_value()) {
      return Status(Code::kCorruption, "rank " + std::to_string(source) +
                                           " sent a batch of a dataset that holds no entries, "
                                           "or such as this rank does not pass on");
    }
    std::string* const room = second_.Room(route_.SecondSlot(passed->partition), passed->partition,
                                           kMarkBytes + passed->entry.size());
    room->append(mark, kMarkBytes).append(passed->entry);
  }
  if (second_.has_closed()) second_sender_->Queue(second_.TakeClosed());
  return Status();
}

// Removes an entry from the front of a batch of the first hop. Returns nothing if it is no entry,
// or not for a partition of this column.
std::optional<Shuffle::Passed> Shuffle::TakePassed(Slice* entries) const {
  base::ByteReader reader(*entries);
  Passed passed{};
  if (names_partitions_ && !reader.Fixed(&passed.partition)) return std::nullopt;
  Slice rest = reader.rest();
  const char* const begin = rest.data();
  const std::optional<ShuffleEntry> entry = TakeEntry(options_.dataset.format, &rest);
  if (!entry.has_value()) return std::nullopt;
  if (!names_partitions_) passed.partition = route_.PartitionOf(entry->hash);
  if (passed.partition >= route_.size() || !route_.MayPassTo(passed.partition)) return std::nullopt;
  passed.entry = Slice(begin, static_cast<size_t>(rest.data() - begin));
  *entries = rest;
  return passed;
}

// Sends from another thread soon, because a service may not send.
void Shuffle::PumpSecond() {
  if (!second_sender_->HasQueued() || second_scheduled_->exchange(true)) return;
  const Status given = base::OrOutOfMemory([this] {
    options_.context->progress_queue->Run([sender = second_sender_, scheduled = second_scheduled_] {
      *scheduled = false;
      sender->TryPump();
    });
    return Status();
  });
  if (given.ok()) return;
  *second_scheduled_ = false;
  second_sender_->Fail(given);
}

// Sends all batches. Returns every failure, because the other ranks wait for this rank's result.
Status Shuffle::SendAll(ShuffleBatcher* batches, std::mutex* mutex, ShuffleSender* sender) {
  return base::OrOutOfMemory([&] {
    {
      const std::lock_guard<std::mutex> lock(*mutex);
      batches->CloseAll();
      sender->Queue(batches->TakeClosed());
    }
    return sender->Wait(true);
  });
}

// Sends everything. Entries to forward leave during the wait, so that there is room for more. All
// of them have arrived when no rank has anything left to send on a first hop.
Status Shuffle::Flush(PatientBarrier* barrier, const Status& mine) {
  Status sent = mine;
  if (sent.ok()) sent = SendAll(&first_, &first_mutex_, first_sender_.get());
  const Status all_sent = barrier->Arrive(sent);
  QUIRE_RETURN_IF_ERROR(sent);
  QUIRE_RETURN_IF_ERROR(all_sent);
  if (!route_.grid()) return Status();
  return SendAll(&second_, &second_mutex_, second_sender_.get());
}

void Shuffle::Drop() {
  {
    const std::unique_lock<std::shared_mutex> alone(taking_);
    dropped_ = true;
  }
  const std::scoped_lock lock(first_mutex_, second_mutex_);
  first_.Drop();
  second_.Drop();
  first_sender_->Drop();
  second_sender_->Drop();
}

ShuffleSenderCounts Shuffle::counts() const {
  ShuffleSenderCounts counts = first_sender_->counts();
  const ShuffleSenderCounts second = second_sender_->counts();
  counts.batches += second.batches;
  counts.bytes += second.bytes;
  counts.refused += second.refused;
  return counts;
}

void Shuffle::NoteBuffers() {
  uint64_t bytes = first_sender_->held_bytes() + second_sender_->held_bytes();
  {
    const std::scoped_lock lock(first_mutex_, second_mutex_);
    bytes += first_.buffer_bytes() + second_.buffer_bytes();
  }
  uint64_t most = buffer_bytes_max_.load();
  while (bytes > most && !buffer_bytes_max_.compare_exchange_weak(most, bytes)) {
  }
}

uint64_t Shuffle::buffer_bytes_max() const {
  return buffer_bytes_max_.load();
}

}  // namespace quire::dataset
