#include "kv/migration/dispatcher.h"

#include <chrono>
#include <string>
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/threads/sync_point.h"
#include "base/threads/thread.h"
#include "comm/exchange/lost_answer.h"
#include "kv/protocol/wire.h"
#include "runtime/agreement.h"

namespace quire::kv {

Result<std::shared_ptr<Dispatcher>> Dispatcher::Create(comm::Exchange* exchange,
                                                       const Options& options,
                                                       DatabaseCounters* counters) {
  std::shared_ptr<Dispatcher> dispatcher(new Dispatcher(exchange, options, counters));
  if (exchange->has_handler_thread() && exchange->size() > 1) {
    QUIRE_ASSIGN_OR_RETURN(
        dispatcher->thread_,
        base::StartThread("quire-dispatch", [raw = dispatcher.get()] { raw->RunThread(); }));
  }
  return dispatcher;
}

Dispatcher::Dispatcher(comm::Exchange* exchange, const Options& options, DatabaseCounters* counters)
    : exchange_(exchange),
      database_number_(options.database_number),
      counters_(counters),
      remote_memtable_(options.remote_memtable, this) {}

Dispatcher::~Dispatcher() {
  Stop(base::OrOutOfMemory([] {
    return Status(Code::kInvalidArgument, "the database is closed");
  }));
}

void Dispatcher::Stop(const Status& why) {
  remote_memtable_.Close(why);
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
  counters_->Add(DatabaseCounter::kStagingStalls);
  const int owner = remote_memtable_.LargestOwner();
  if (owner < 0) return;
  // If the owner does not answer, its batches are given up, which makes room, too; the fence
  // reports this.
  static_cast<void>(Drain(owner));
}

// Sends while there is something to send and no other thread sends to `owner`.
void Dispatcher::Pump(int owner) {
  do {
    const std::unique_lock<std::mutex> lock(remote_memtable_.SendMutex(owner), std::try_to_lock);
    if (!lock.owns_lock()) return;  // the thread that holds it tries once more after releasing it
    while (StagedBatchPtr batch = remote_memtable_.TakeSendable(owner))
      SendNext(owner, std::move(batch));
  } while (remote_memtable_.HasSendable(owner));
}

void Dispatcher::SendNext(int owner, StagedBatchPtr batch) {
  counters_->Add(DatabaseCounter::kBatchesSent);
  counters_->Add(DatabaseCounter::kBatchBytesSent, batch->size);
  base::SyncPoint("kv.batch.before_send");
  auto done = [self = shared_from_this(), owner, batch](const comm::Outcome& outcome) {
    self->OnAnswer(owner, batch, outcome);
    // Nothing may be sent from here: the thread sends it, or the next call.
    if (self->remote_memtable_.HasSendable(owner)) self->Enqueue(owner);
  };
  const Status started = base::OrOutOfMemory([&] {
    return exchange_->StartThen(owner, Channel(database_number_, WireOperation::kApply), {},
                                batch->contents(), std::move(done));
  });
  if (!started.ok()) OnAnswer(owner, batch, {started, {}, false});
}

// An owner whose answer found no memory here may have applied the batch.
void Dispatcher::OnAnswer(int owner, const StagedBatchPtr& batch, const comm::Outcome& outcome) {
  const uint64_t count = batch->count;
  const Status& status = outcome.status;
  base::SyncPoint("kv.batch.answered");
  if (!remote_memtable_.Finish(owner, batch)) return;  // given up, and counted, before
  if (runtime::IsOfASilentRank(status)) {
    counters_->Add(DatabaseCounter::kOperationsUnknown, count);
    failures_.AddUnknown(owner, count, status);
    GiveUp(owner, status);
    return;
  }
  const Result<ApplyFailures> failures = base::OrOutOfMemory([&]() -> Result<ApplyFailures> {
    if (status.ok()) return DecodeApplyFailures(outcome.answer);
    if (outcome.lost) return status;
    return ApplyFailures{count, OwnerStatus(owner, status)};
  });
  if (!failures.ok()) {
    counters_->Add(DatabaseCounter::kOperationsUnknown, count);
    failures_.AddUnknown(owner, count, failures.status());
    return;
  }
  if (failures->lost_count == 0) return;
  counters_->Add(DatabaseCounter::kOperationsLost, failures->lost_count);
  failures_.AddLost(owner, failures->lost_count, failures->first);
}

// The owner is dead or does not answer: what waits behind would wait in vain, each for its
// deadline.
void Dispatcher::GiveUp(int owner, const Status& why) {
  const bool dead = why.code() == Code::kPeerFailed;
  const RemoteMemTable::Dropped dropped = remote_memtable_.GiveUp(owner, why, dead);
  counters_->Add(DatabaseCounter::kOperationsUnknown, dropped.in_flight_count);
  counters_->Add(DatabaseCounter::kOperationsLost, dropped.unsent_count);
  failures_.AddUnknown(owner, dropped.in_flight_count, why);
  failures_.AddLost(owner, dropped.unsent_count, why);
}

// One round of draining one owner: sends some batches, and waits for the last of them.
struct Dispatcher::Wave {
  int owner = 0;
  uint64_t target = 0;   // position in the owner's stream up to which all is to be acknowledged
  StagedBatchPtr batch;  // null: a fence behind batches that others sent
  std::shared_ptr<comm::Call> call;
};

// Starts the next wait of `wave`; leaves `wave->call` empty if there is nothing left to wait for.
Status Dispatcher::StartWave(Wave* wave) {
  wave->batch = nullptr;
  wave->call = nullptr;
  const int owner = wave->owner;
  if (remote_memtable_.Acknowledged(owner, wave->target)) return Status();
  const std::lock_guard<std::mutex> lock(remote_memtable_.SendMutex(owner));
  StagedBatchPtr last;
  while (StagedBatchPtr batch = remote_memtable_.TakeSendable(owner)) {
    if (last != nullptr) SendNext(owner, std::move(last));
    last = std::move(batch);
  }
  const WireOperation operation = last == nullptr ? WireOperation::kFence : WireOperation::kApply;
  base::SyncPoint("kv.fence.before_send");
  if (last != nullptr) {
    counters_->Add(DatabaseCounter::kBatchesSent);
    counters_->Add(DatabaseCounter::kBatchBytesSent, last->size);
  }
  const Slice contents = last == nullptr ? Slice() : last->contents();
  // A batch that was taken is settled, whatever happens: no other thread would send it again.
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
  // The batch was sent: if there is no memory to wait, it may have been applied.
  const Status status = runtime::EndOf([&] { return exchange_->Wait(wave->call, &answer); });
  base::SyncPoint("kv.fence.answered");
  const bool silent = runtime::IsOfASilentRank(status);
  const bool lost = wave->call->Done() && comm::AnswerWasLost(*wave->call);
  Settle(wave->owner, wave->batch, {status, answer, lost});
  return silent ? status : Status();
}

// Settles the end of a wave; if a fence failed, the owner is given up.
void Dispatcher::Settle(int owner, const StagedBatchPtr& batch, const comm::Outcome& outcome) {
  if (batch != nullptr) {
    OnAnswer(owner, batch, outcome);
  } else if (!outcome.status.ok()) {
    GiveUp(owner, OwnerStatus(owner, outcome.status));
  }
}

Status Dispatcher::Drain(int owner) {
  if (remote_memtable_.Empty(owner)) return Status();
  Wave wave;
  wave.owner = owner;
  wave.target = remote_memtable_.Seal(owner);
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
  for (const int owner : remote_memtable_.Owners()) {
    waves.emplace_back();
    waves.back().owner = owner;
    waves.back().target = remote_memtable_.Seal(owner);
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
  for (const int owner : remote_memtable_.Owners()) {
    remote_memtable_.Seal(owner);
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

// If memory runs out in a turn, the next turn comes a while later, and visits all owners: what the
// failed turn was about to send is not known any more.
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
  for (const int owner : remote_memtable_.Owners()) Pump(owner);
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
  if (remote_memtable_.HasOpenBatches()) {
    const bool early = wake_.wait_for(lock, std::chrono::nanoseconds(kLingerNs),
                                      [this] { return stopping_ || !ready_.empty(); });
    if (early) return;
    lock.unlock();
    // Opened before the tick that ends now: open for at least one whole tick.
    for (const int owner : remote_memtable_.SealOlderThan(tick_)) Pump(owner);
    remote_memtable_.SetTick(++tick_);
    lock.lock();
    return;
  }
  asleep_.store(true);
  wake_.wait(lock,
             [this] { return stopping_ || !ready_.empty() || remote_memtable_.HasOpenBatches(); });
  asleep_.store(false);
}

}  // namespace quire::kv
