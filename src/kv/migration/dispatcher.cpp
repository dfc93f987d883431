#include "kv/migration/dispatcher.h"

#include <chrono>
#include <string>
#include <utility>

#include "base/out_of_memory.h"
#include "base/sync_point.h"
#include "base/thread.h"
#include "comm/exchange/lost_answer.h"
#include "kv/protocol/wire.h"
#include "runtime/agreement.h"

namespace quire::kv {

Result<std::shared_ptr<Dispatcher>> Dispatcher::Create(comm::Exchange* exchange,
                                                       const Options& options,
                                                       Counters* counters) {
  std::shared_ptr<Dispatcher> dispatcher(new Dispatcher(exchange, options, counters));
  if (exchange->has_handler_thread() && exchange->size() > 1) {
    QUIRE_ASSIGN_OR_RETURN(
        dispatcher->thread_,
        base::StartThread("quire-dispatch", [raw = dispatcher.get()] { raw->RunThread(); }));
  }
  return dispatcher;
}

Dispatcher::Dispatcher(comm::Exchange* exchange, const Options& options, Counters* counters)
    : exchange_(exchange),
      database_number_(options.database_number),
      counters_(counters),
      staging_(options.staging, this) {}

Dispatcher::~Dispatcher() {
  Stop(base::OrOutOfMemory([] {
    return Status(Code::kInvalidArgument, "the database is closed");
  }));
}

void Dispatcher::Stop(const Status& why) {
  staging_.Close(why);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Dispatcher::Ready(int owner) {
  Pump(owner);
}

void Dispatcher::Opened() {
  // Sequentially consistent with RunThread: either it sees the open batch, or this sees it asleep.
  if (asleep_.load()) WakeThread();
}

void Dispatcher::MakeRoom() {
  counters_->Add(Counter::kStagingStalls);
  const int owner = staging_.LargestOwner();
  if (owner < 0) return;
  // Where the owner does not answer its batches are given up, which makes room too; the fence
  // tells.
  static_cast<void>(Drain(owner));
}

// Sends while there is something to send and nobody else is at it.
void Dispatcher::Pump(int owner) {
  do {
    const std::unique_lock<std::mutex> lock(staging_.SendMutex(owner), std::try_to_lock);
    if (!lock.owns_lock()) return;  // whoever holds it looks once more after letting go
    while (StagedBatchPtr batch = staging_.TakeSendable(owner)) SendNext(owner, std::move(batch));
  } while (staging_.HasSendable(owner));
}

void Dispatcher::SendNext(int owner, StagedBatchPtr batch) {
  counters_->Add(Counter::kBatchesSent);
  counters_->Add(Counter::kBatchBytesSent, batch->size);
  base::SyncPoint("kv.batch.before_send");
  auto done = [self = shared_from_this(), owner, batch](const comm::Outcome& outcome) {
    self->OnAnswer(owner, batch, outcome);
    // This runs where nothing may be sent: the thread does it, or the next call.
    if (self->staging_.HasSendable(owner)) self->Enqueue(owner);
  };
  const Status started = base::OrOutOfMemory([&] {
    return exchange_->StartThen(owner, Channel(database_number_, Operation::kApply), {},
                                batch->contents(), std::move(done));
  });
  if (!started.ok()) OnAnswer(owner, batch, {started, {}, false});
}

// An owner whose answer found no memory here may have applied the batch.
void Dispatcher::OnAnswer(int owner, const StagedBatchPtr& batch, const comm::Outcome& outcome) {
  const uint64_t count = batch->count;
  const Status& status = outcome.status;
  base::SyncPoint("kv.batch.answered");
  if (!staging_.Finish(owner, batch)) return;  // given up, and counted, before
  if (runtime::IsOfASilentRank(status)) {
    counters_->Add(Counter::kOperationsUnknown, count);
    failures_.AddUnknown(owner, count, status);
    GiveUp(owner, status);
    return;
  }
  const Result<Damage> damage = base::OrOutOfMemory([&]() -> Result<Damage> {
    if (status.ok()) return DecodeDamage(outcome.answer);
    if (outcome.lost) return status;
    return Damage{count, OwnerStatus(owner, status)};
  });
  if (!damage.ok()) {
    counters_->Add(Counter::kOperationsUnknown, count);
    failures_.AddUnknown(owner, count, damage.status());
    return;
  }
  if (damage->lost_count == 0) return;
  counters_->Add(Counter::kOperationsLost, damage->lost_count);
  failures_.AddLost(owner, damage->lost_count, damage->first);
}

// The owner is dead or does not answer: what waits behind would wait in vain, each for its
// deadline.
void Dispatcher::GiveUp(int owner, const Status& why) {
  const bool dead = why.code() == Code::kPeerFailed;
  const Staging::Dropped dropped = staging_.GiveUp(owner, why, dead);
  counters_->Add(Counter::kOperationsUnknown, dropped.in_flight_count);
  counters_->Add(Counter::kOperationsLost, dropped.unsent_count);
  failures_.AddUnknown(owner, dropped.in_flight_count, why);
  failures_.AddLost(owner, dropped.unsent_count, why);
}

// One round of draining one owner: some batches sent, the last of them to be waited for.
struct Dispatcher::Wave {
  int owner = 0;
  uint64_t target = 0;   // position in the owner's stream up to which all is to be acknowledged
  StagedBatchPtr batch;  // null: a fence behind batches that others sent
  std::shared_ptr<comm::Call> call;
};

// Leaves `wave->call` empty where nothing is left to be waited for.
Status Dispatcher::StartWave(Wave* wave) {
  wave->batch = nullptr;
  wave->call = nullptr;
  const int owner = wave->owner;
  if (staging_.Acknowledged(owner, wave->target)) return Status();
  const std::lock_guard<std::mutex> lock(staging_.SendMutex(owner));
  StagedBatchPtr last;
  while (StagedBatchPtr batch = staging_.TakeSendable(owner)) {
    if (last != nullptr) SendNext(owner, std::move(last));
    last = std::move(batch);
  }
  const Operation operation = last == nullptr ? Operation::kFence : Operation::kApply;
  base::SyncPoint("kv.fence.before_send");
  if (last != nullptr) {
    counters_->Add(Counter::kBatchesSent);
    counters_->Add(Counter::kBatchBytesSent, last->size);
  }
  const Slice contents = last == nullptr ? Slice() : last->contents();
  // A batch that was taken is settled, whatever happens: nobody would send it again.
  auto call = base::OrOutOfMemory([&] {
    return exchange_->Start(owner, Channel(database_number_, operation), {}, contents);
  });
  if (!call.ok()) {
    Settle(owner, last, {call.status(), {}, false});
    return call.status();
  }
  wave->batch = std::move(last);
  wave->call = std::move(*call);
  return Status();
}

Status Dispatcher::FinishWave(Wave* wave) {
  std::string answer;
  // It was sent: what there is no memory to wait for may have been applied.
  const Status status = runtime::EndOf([&] { return exchange_->Wait(wave->call, &answer); });
  base::SyncPoint("kv.fence.answered");
  const bool silent = runtime::IsOfASilentRank(status);
  const bool lost = wave->call->Done() && comm::AnswerWasLost(*wave->call);
  Settle(wave->owner, wave->batch, {status, answer, lost});
  return silent ? status : Status();
}

// What a wave ended with; a fence that failed leaves nothing to be hoped for.
void Dispatcher::Settle(int owner, const StagedBatchPtr& batch, const comm::Outcome& outcome) {
  if (batch != nullptr) {
    OnAnswer(owner, batch, outcome);
  } else if (!outcome.status.ok()) {
    GiveUp(owner, OwnerStatus(owner, outcome.status));
  }
}

Status Dispatcher::Drain(int owner) {
  if (staging_.Empty(owner)) return Status();
  Wave wave;
  wave.owner = owner;
  wave.target = staging_.Seal(owner);
  while (true) {
    const Status started = StartWave(&wave);
    Pump(owner);  // what came while the send mutex was held
    if (!started.ok() || wave.call == nullptr) return started;
    QUIRE_RETURN_IF_ERROR(FinishWave(&wave));
  }
}

Status Dispatcher::DrainAll() {
  Status first;
  std::vector<Wave> waves;
  for (const int owner : staging_.Owners()) {
    waves.emplace_back();
    waves.back().owner = owner;
    waves.back().target = staging_.Seal(owner);
  }
  while (!waves.empty()) {
    for (Wave& wave : waves) {
      const Status started = StartWave(&wave);
      Pump(wave.owner);
      if (first.ok()) first = started;
    }
    std::erase_if(waves, [](const Wave& wave) { return wave.call == nullptr; });
    std::erase_if(waves, [&](Wave& wave) {
      const Status finished = FinishWave(&wave);
      if (first.ok()) first = finished;
      return !finished.ok();
    });
  }
  return first;
}

void Dispatcher::SendLingering() {
  for (const int owner : staging_.Owners()) {
    staging_.Seal(owner);
    Pump(owner);
  }
}

void Dispatcher::Enqueue(int owner) {
  if (!thread_.joinable()) return;  // the next call that seals or drains sends it
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ready_.push_back(owner);
  }
  wake_.notify_one();
}

void Dispatcher::WakeThread() {
  asleep_.store(false);
  const std::lock_guard<std::mutex> lock(mutex_);
  wake_.notify_one();
}

// Where memory runs out in a turn, the next one comes a while later, and looks at all owners: what
// the turn was about to send is not known any more.
void Dispatcher::RunThread() {
  std::unique_lock<std::mutex> lock(mutex_);
  bool starved = false;
  while (!stopping_) {
    const Status turn = base::OrOutOfMemory([&] {
      if (starved) PumpAll(lock);
      starved = false;
      RunTurn(lock);
      return Status();
    });
    if (turn.ok()) continue;
    starved = true;
    if (!lock.owns_lock()) lock.lock();
    wake_.wait_for(lock, std::chrono::nanoseconds(kLingerNs), [this] { return stopping_; });
  }
}

void Dispatcher::PumpAll(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  for (const int owner : staging_.Owners()) Pump(owner);
  lock.lock();
}

void Dispatcher::RunTurn(std::unique_lock<std::mutex>& lock) {
  if (!ready_.empty()) {
    const int owner = ready_.front();
    ready_.pop_front();
    lock.unlock();
    Pump(owner);
    lock.lock();
    return;
  }
  if (staging_.HasOpenBatches()) {
    const bool early = wake_.wait_for(lock, std::chrono::nanoseconds(kLingerNs),
                                      [this] { return stopping_ || !ready_.empty(); });
    if (early) return;
    lock.unlock();
    // Opened before the tick that ends now: open for at least one whole tick.
    for (const int owner : staging_.SealOlderThan(tick_)) Pump(owner);
    staging_.SetTick(++tick_);
    lock.lock();
    return;
  }
  asleep_.store(true);
  wake_.wait(lock, [this] { return stopping_ || !ready_.empty() || staging_.HasOpenBatches(); });
  asleep_.store(false);
}

}  // namespace quire::kv
