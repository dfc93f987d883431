#include "dataset/route/shuffle_sender.h"

#include <algorithm>
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/threads/sync_point.h"

namespace quire::dataset {
namespace {

// How long a rank is left alone that has refused a batch.
constexpr uint64_t kNapNsMin = 50'000;
constexpr uint64_t kNapNsMax = 5'000'000;

}  // namespace

void ShuffleSender::Queue(std::vector<ShuffleBatch> batches) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (ShuffleBatch& batch : batches) {
    held_bytes_ += batch.bytes.capacity();
    queue_.push_back(std::move(batch));
  }
}

bool ShuffleSender::HasQueued() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !queue_.empty();
}

Status ShuffleSender::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

ShuffleSenderCounts ShuffleSender::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

void ShuffleSender::Drop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++life_;
  queue_.clear();
  under_way_.clear();
  refusing_.clear();
  held_bytes_ = 0;
  status_ = Status();
}

void ShuffleSender::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
  }
  const std::unique_lock<std::shared_mutex> alone(pumps_);
  Drop();
}

void ShuffleSender::Pump() {
  const std::shared_lock<std::shared_mutex> sending(pumps_);
  uint64_t refused = 0;
  do {  // batches for this rank itself are settled now, and may make way for more
    refused = counts().refused;
    Sendable sendable = TakeSendable();
    if (sendable.batches.empty()) return;
    for (ShuffleBatch& batch : sendable.batches) Send(sendable.life, std::move(batch));
  } while (counts().refused == refused);
}

void ShuffleSender::TryPump() {
  const Status pumped = base::OrOutOfMemory([this] {
    Pump();
    return Status();
  });
  if (!pumped.ok()) Fail(pumped);
}

void ShuffleSender::Fail(const Status& why) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = why;
  }
  options_.exchange->Nudge(this);
}

// With mutex_ held.
bool ShuffleSender::MaySend(uint32_t destination) const {
  if (!options_.in_order && !refusing_.contains(destination)) return true;
  return std::find(under_way_.begin(), under_way_.end(), destination) == under_way_.end();
}

ShuffleSender::Sendable ShuffleSender::TakeSendable() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Sendable taken{life_, {}};
  if (!status_.ok() || stopped_) return taken;
  std::deque<ShuffleBatch> kept;
  for (ShuffleBatch& batch : queue_) {
    if (!MaySend(batch.destination)) {
      kept.push_back(std::move(batch));
      continue;
    }
    under_way_.push_back(batch.destination);
    taken.batches.push_back(std::move(batch));
  }
  queue_.swap(kept);
  return taken;
}

void ShuffleSender::Send(uint64_t life, ShuffleBatch batch) {
  const int destination = static_cast<int>(batch.destination);
  const auto flight = std::make_shared<Flight>(Flight{life, std::move(batch)});
  const Slice bytes = flight->batch.bytes;
  if (destination == options_.exchange->rank()) {
    return Settle(flight, options_.deliver(bytes));
  }
  const Status sent = options_.exchange->StartThen(
      destination, options_.channel, {}, bytes,
      [self = shared_from_this(), flight](const comm::Outcome& outcome) {
        self->Settle(flight, outcome.status);
      });
  if (!sent.ok()) Settle(flight, sent);
}

// Handles a batch that was taken, refused, or lost.
void ShuffleSender::Settle(const std::shared_ptr<Flight>& flight, const Status& status) {
  ShuffleBatch& batch = flight->batch;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (flight->life != life_) return;
    under_way_.erase(std::find(under_way_.begin(), under_way_.end(), batch.destination));
    if (status.code() == Code::kBusy) {
      ++counts_.refused;
      base::SyncPoint("partition.batch.refused");
      // If there is no memory to queue it again, the batch is lost, and status_ records that: no
      // caller receives an exception thrown here.
      const Status kept = base::OrOutOfMemory([&] {
        refusing_.insert(batch.destination);
        queue_.push_front(std::move(batch));  // before later batches for its destination
        return Status();
      });
      if (status_.ok()) status_ = kept;
    } else {
      refusing_.erase(batch.destination);
      held_bytes_ -= batch.bytes.capacity();
      ++counts_.batches;
      counts_.bytes += batch.bytes.size();
      ++taken_count_;
      if (status_.ok() && !status.ok()) status_ = status;
    }
  }
  options_.exchange->Nudge(this);
}

bool ShuffleSender::Done(bool all) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!status_.ok()) return true;
  return all ? queue_.empty() && under_way_.empty() : held_bytes_.load() <= options_.held_bytes_max;
}

uint64_t ShuffleSender::TakenCount() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return taken_count_;
}

// Returns the rank whose answer is awaited; kNobody if there is something to do here.
int ShuffleSender::Missing(bool all, uint64_t refused_before) const {
  if (Done(all)) return comm::Exchange::kNobody;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (under_way_.empty() || counts_.refused != refused_before) return comm::Exchange::kNobody;
  for (const ShuffleBatch& batch : queue_) {
    if (MaySend(batch.destination)) return comm::Exchange::kNobody;
  }
  return static_cast<int>(under_way_.front());
}

Status ShuffleSender::Wait(bool all) {
  while (true) {
    const uint64_t taken = TakenCount();
    const Status waited = WaitForAnswers(all);
    if (Done(all)) return status();
    if (waited.code() == Code::kTimedOut && TakenCount() != taken) continue;
    if (!waited.ok()) return waited;
  }
}

// Waits until it is done, or until a deadline. A rank that refuses is asked again after a nap.
Status ShuffleSender::WaitForAnswers(bool all) {
  comm::Exchange& exchange = *options_.exchange;
  io::Clock& clock = exchange.transport().clock();
  const uint64_t deadline_ns = clock.NowNs() + options_.timeout_ms * 1'000'000;
  uint64_t nap_ns = kNapNsMin;
  uint64_t refused = counts().refused;
  while (!Done(all)) {
    Pump();
    const Status waited = exchange.Await(this, "batches of a dataset to be taken",
                                         [&] { return Missing(all, refused); });
    if (!waited.ok()) return waited;
    const uint64_t refused_now = counts().refused;
    if (refused_now == refused) continue;
    refused = refused_now;
    // Its result does not matter: each refusal may bring more work, and answers must be received in
    // between.
    static_cast<void>(options_.work());
    if (clock.NowNs() > deadline_ns) {
      return Status(Code::kTimedOut,
                    "ranks refused batches of a dataset, as they have no room, for " +
                        std::to_string(options_.timeout_ms) + " ms");
    }
    clock.SleepNs(nap_ns);
    exchange.Progress();
    nap_ns = std::min(2 * nap_ns, kNapNsMax);
  }
  return Status();
}

}  // namespace quire::dataset
