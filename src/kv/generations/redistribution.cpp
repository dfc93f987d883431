#include "kv/generations/redistribution.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/core/log_sink.h"
#include "base/core/out_of_memory.h"
#include "base/text/units.h"
#include "base/threads/sync_point.h"
#include "engine/write_batch.h"
#include "io/files/machine.h"
#include "kv/generations/part_files.h"
#include "kv/protocol/part_engine.h"
#include "kv/protocol/wire.h"
#include "runtime/agreement.h"

namespace quire::kv {
namespace {

// Pairs to one owner go together in messages of about so much.
constexpr uint64_t kBatchBytes = 256 << 10;
// Bytes that wait for their batches to be full, for all owners together.
constexpr uint64_t kBufferedBytesMax = 8 << 20;
// Messages without an answer.
constexpr int kUnderWayMax = 16;
// Pairs that one call of Advance looks at.
constexpr int kPairsPerAdvance = 2000;
// How long gets may take that began before the last pair was there.
constexpr int kGetsWaitMs = 200;

enum Step { kSend, kFlush, kForget, kDrop, kRemove, kStepCount };

struct PartToRead {
  size_t generation;
  int rank;
};

// The outcome of answers: shared with them, because they may outlive the work.
struct Answers {
  std::mutex mutex;
  int under_way = 0;
  Status failure;  // the first, as its owner gave it
  int failed_owner = 0;
  std::weak_ptr<runtime::Job> job;
};

class RedistributionWork final : public runtime::JobWork {
 public:
  RedistributionWork(std::shared_ptr<runtime::ContextState> context, RedistributionRequest request)
      : context_(std::move(context)),
        request_(std::move(request)),
        generations_(request_.chain->generations()),
        answers_(std::make_shared<Answers>()),
        batches_(static_cast<size_t>(context_->size())) {
    for (size_t at = 0; at < request_.readers.size(); ++at) {
      for (size_t rank = 0; rank < request_.readers[at].size(); ++rank) {
        if (request_.readers[at][rank] != context_->rank()) continue;
        parts_.push_back({at, static_cast<int>(rank)});
      }
    }
  }

  void Attach(const std::weak_ptr<runtime::Job>& job) override { answers_->job = job; }
  int step_count() const override { return kStepCount; }
  bool sends(int step) const override { return step == kSend; }
  Result<State> Advance(int step) override;
  // Once the older parts are forgotten, the remaining work only frees room.
  Status AfterFailure(const Status& why) const override { return forgotten_ ? Status() : why; }
  void Finish(const Status& status) override;

 private:
  Result<State> AdvanceSend();
  Status OpenPart();
  Status Take();
  Status Send(int owner);
  Status SendFullest();
  /// How many messages have no answer; the first failure.
  Result<int> UnderWay() const;
  Status Forget();
  void DropChain();
  void RemoveOwnPart();
  Result<bool> RemoveSome(const PartToRead& part);

  const std::shared_ptr<runtime::ContextState> context_;
  RedistributionRequest request_;
  const std::vector<Generation> generations_;
  const std::shared_ptr<Answers> answers_;
  std::vector<PartToRead> parts_;
  size_t at_ = 0;
  std::shared_ptr<engine::StoredPart> part_;
  std::unique_ptr<engine::Iterator> pairs_;
  std::vector<engine::WriteBatch> batches_;  // by owner
  uint64_t buffered_ = 0;
  std::atomic<bool> forgotten_ = false;      // the descriptor names the older parts no more
  bool removes_ = false;                     // the step has begun that removes them
  size_t removed_ = 0;                       // of parts_
  std::unique_ptr<engine::PartRemoval> removal_;  // of the next one, while it goes on
};

Result<runtime::JobWork::State> RedistributionWork::Advance(int step) {
  switch (step) {
    case kSend:
      return AdvanceSend();
    case kFlush:
      base::SyncPoint("kv.move.sent");
      QUIRE_RETURN_IF_ERROR(request_.engine->Flush());
      base::SyncPoint("kv.move.flushed");
      break;
    case kForget:
      if (context_->rank() != 0) break;
      QUIRE_RETURN_IF_ERROR(Forget());
      forgotten_ = true;
      base::SyncPoint("kv.move.forgotten");
      break;
    case kDrop:
      base::SyncPoint("kv.move.before_drop");
      forgotten_ = true;
      DropChain();
      break;
    case kRemove:
      if (!removes_) base::SyncPoint("kv.move.dropped");
      removes_ = true;
      if (removed_ < parts_.size()) {
        RemoveOwnPart();
        return State::kAgain;
      }
      base::SyncPoint("kv.move.removed");
      break;
    default:
      break;
  }
  return State::kThrough;
}

// The pairs may have taken hours.
Status RedistributionWork::Forget() {
  DatabaseDescriptor before = request_.without;
  before.generations.insert(before.generations.end(), generations_.begin(), generations_.end());
  Status same = CheckSameDatabase(*context_->fs, request_.directory, before);
  // An earlier attempt may have replaced it, and not have made that durable.
  if (same.code() == Code::kBusy) {
    same = CheckSameDatabase(*context_->fs, request_.directory, request_.without);
  }
  QUIRE_RETURN_IF_ERROR(same);
  return WriteDescriptor(*context_->fs, request_.directory, request_.without);
}

Result<runtime::JobWork::State> RedistributionWork::AdvanceSend() {
  for (int i = 0; i < kPairsPerAdvance; ++i) {
    QUIRE_ASSIGN_OR_RETURN(const int under_way, UnderWay());
    if (under_way >= kUnderWayMax) return State::kWaiting;
    if (pairs_ != nullptr && pairs_->Valid()) {
      QUIRE_RETURN_IF_ERROR(Take());
      continue;
    }
    if (pairs_ != nullptr) {
      QUIRE_RETURN_IF_ERROR(pairs_->status());
      pairs_.reset();
      part_.reset();
      ++at_;
    }
    if (at_ < parts_.size()) {
      QUIRE_RETURN_IF_ERROR(OpenPart());
    } else if (buffered_ > 0) {
      QUIRE_RETURN_IF_ERROR(SendFullest());
    } else {
      return under_way == 0 ? State::kThrough : State::kWaiting;
    }
  }
  return State::kAgain;
}

Status RedistributionWork::OpenPart() {
  QUIRE_ASSIGN_OR_RETURN(part_, request_.chain->PartOnce(parts_[at_].generation, parts_[at_].rank));
  bytes_total += part_->EntryBytes();
  pairs_ = part_->NewIterator({});
  pairs_->SeekToFirst();
  base::SyncPoint("kv.move.opened");
  return Status();
}

// The pair on which the iterator stands, unless a newer generation knows its key.
Status RedistributionWork::Take() {
  const Slice key = pairs_->key();
  QUIRE_ASSIGN_OR_RETURN(const bool known,
                         request_.chain->KnownBefore(key, parts_[at_].generation));
  base::SyncPoint("kv.move.looked");
  if (!known) {
    const Slice value = pairs_->value();
    QUIRE_RETURN_IF_ERROR(pairs_->status());
    QUIRE_ASSIGN_OR_RETURN(const int owner, request_.chain->OwnerAmong(key, context_->size()));
    engine::WriteBatch& batch = batches_[static_cast<size_t>(owner)];
    const uint64_t before = batch.bytes().size();
    batch.Put(key, value);
    buffered_ += batch.bytes().size() - before;
    bytes_done += key.size() + value.size();
    if (batch.bytes().size() >= kBatchBytes) QUIRE_RETURN_IF_ERROR(Send(owner));
    if (buffered_ >= kBufferedBytesMax) QUIRE_RETURN_IF_ERROR(SendFullest());
  }
  pairs_->Next();
  return Status();
}

Status RedistributionWork::SendFullest() {
  const auto fullest = std::max_element(
      batches_.begin(), batches_.end(),
      [](const auto& a, const auto& b) { return a.bytes().size() < b.bytes().size(); });
  return Send(static_cast<int>(fullest - batches_.begin()));
}

Status RedistributionWork::Send(int owner) {
  base::SyncPoint("kv.move.before_send");
  engine::WriteBatch& batch = batches_[static_cast<size_t>(owner)];
  buffered_ -= batch.bytes().size();
  if (owner == context_->rank()) {
    engine::WriteProgress progress;
    const Status filled = request_.engine->backable()->Fill(batch.bytes(), &progress);
    batch = engine::WriteBatch();
    return filled;
  }
  {
    const std::lock_guard<std::mutex> lock(answers_->mutex);
    ++answers_->under_way;
  }
  const auto done = [answers = answers_, owner](const comm::Outcome& outcome) {
    const Status& status = outcome.status;
    if (!status.ok()) base::SyncPoint("kv.fill.refused");
    std::shared_ptr<runtime::Job> job;
    {
      const std::lock_guard<std::mutex> lock(answers->mutex);
      --answers->under_way;
      // Allocates no memory: an exception here would be lost, and the pairs would count as moved.
      if (answers->failure.ok() && !status.ok()) {
        answers->failure = status;
        answers->failed_owner = owner;
      }
      job = answers->job.lock();
    }
    if (job != nullptr) job->Resume();
  };
  const Status sent = context_->exchange->StartThen(
      owner, Channel(request_.number, WireOperation::kFill), {}, batch.bytes(), done);
  batch = engine::WriteBatch();
  return sent;
}

Result<int> RedistributionWork::UnderWay() const {
  const std::lock_guard<std::mutex> lock(answers_->mutex);
  if (answers_->failure.ok()) return answers_->under_way;
  const int owner = answers_->failed_owner;
  return OwnerStatus(owner, answers_->failure)
      .WithContext("moving pairs to rank " + std::to_string(owner));
}

// Gets that are at an older part end soon; iterators may stay, and keep the parts locked.
void RedistributionWork::DropChain() {
  const std::weak_ptr<const GenerationChain> chain = request_.chain;
  request_.engine->backable()->DetachBackingStore();
  request_.chain.reset();
  for (int i = 0; i < kGetsWaitMs && !chain.expired(); ++i) {
    io::RealClock().SleepNs(base::kNsPerMs);
  }
}

// Removes some of the next part that this rank read, so that each part is removed from its own
// storage. All pairs have moved, and the descriptor names these parts no more: a part that stays
// costs room, and fails nothing.
void RedistributionWork::RemoveOwnPart() {
  const Result<bool> gone = RemoveSome(parts_[removed_]);
  if (gone.ok() && !*gone) return;
  removal_.reset();
  ++removed_;
  if (gone.ok() || !base::LogEnabled()) return;
  base::Log(LogLevel::kWarning,
            "an older part of " + request_.database +
                " whose pairs have moved cannot be removed: " + gone.status().ToString() +
                "; closing the database, or the next open, tries again");
}

// Returns true once the part is gone, or if it stays: a checkpoint that was read in place, and for
// now a part that a reader still uses.
Result<bool> RedistributionWork::RemoveSome(const PartToRead& part) {
  const Generation& generation = generations_[part.generation];
  if (!generation.location.empty()) return true;
  if (removal_ == nullptr) {
    removal_ = PartsOnDisk().NewRemoval(
        *context_->fs, PartDirectory(request_.directory, generation, part.rank), nullptr);
  }
  const Result<bool> gone = removal_->Advance();
  if (gone.status().code() == Code::kBusy) return true;
  QUIRE_RETURN_IF_ERROR(gone.status());
  if (*gone) {
    QUIRE_RETURN_IF_ERROR(
        RemoveIfEmpty(*context_->fs, GenerationDirectory(request_.directory, generation)));
  }
  return *gone;
}

void RedistributionWork::Finish(const Status& status) {
  // A failure on some rank cut off the step that does this. A database without memory for it keeps
  // the older parts until it is closed, and needs them no more.
  if (status.ok() && request_.chain != nullptr) {
    static_cast<void>(base::OrOutOfMemory([this] {
      DropChain();
      return Status();
    }));
  }
  pairs_.reset();
  part_.reset();
  removal_.reset();
  request_.chain.reset();
  request_.engine.reset();
  if (status.ok() || *request_.closing || context_->rank() != 0 || !base::LogEnabled()) return;
  base::Log(LogLevel::kWarning,
            "the pairs of older generations of " + request_.database +
                " have not all moved; the next checkpoint or open goes on: " + status.ToString());
}

}  // namespace

Status Redistribution::Begin(uint32_t number, RedistributionRequest request, Wait wait) {
  old_parts_ = request.chain;
  to_move_ = request;
  to_move_.chain.reset();
  const std::string what = "the redistribution of " + request.database;
  auto work = std::make_unique<RedistributionWork>(context_, std::move(request));
  QUIRE_RETURN_IF_ERROR(
      runtime::Job::StartTogether(context_, number, what, std::move(work), &job_).status());
  if (wait == Wait::kNothing) return Status();
  const Status ended = runtime::EndOf([&] { return job_->Wait(); });
  const Status moved = runtime::AgreeOnOutcome(*context_->exchange, ended);
  return wait == Wait::kMoved || runtime::IsOfASilentRank(moved) ? moved : Status();
}

// A rank's own knowledge must not decide whether it enters a collective call: a rank may have ended
// by itself, and where an iterator keeps the older parts depends on the rank. So all agree twice,
// on how it ended and on who could begin again. If it failed for want of room, there may be room
// now.
Status Redistribution::Await(uint32_t number) {
  if (job_ == nullptr) return Status();
  const Status mine = runtime::EndOf([&] { return job_->Wait(); });
  const Status moved = runtime::AgreeOnOutcome(*context_->exchange, mine);
  if (moved.ok() || runtime::IsOfASilentRank(moved)) return moved;
  RedistributionRequest again;
  const Status can_begin = base::OrOutOfMemory([&] {
    again = to_move_;
    again.chain = old_parts_.lock();
    return mine.ok() || again.chain == nullptr ? moved : Status();
  });
  QUIRE_RETURN_IF_ERROR(context_->exchange->Agree(can_begin));
  return Begin(number, std::move(again), Wait::kMoved);
}

// Pairs that have not moved stay for the next open. No rank sends any more once the first one ends.
void Redistribution::End() {
  if (job_ == nullptr) return;
  bool moved = job_->finished();
  if (moved) {
    moved = base::OrOutOfMemory([&] { return job_->Wait(); }).ok();
  } else {
    *to_move_.closing = true;
    job_->Stop();
  }
  const Result<uint64_t> cut_off = context_->exchange->Sum(moved ? 0 : 1);
  if (cut_off.ok() && *cut_off == 0) RemoveMovedParts();
}

// The redistribution leaves parts that iterators still read. They end with the database.
void Redistribution::RemoveMovedParts() {
  const Status removed = runtime::Together(*context_->exchange, [this] {
    return RemoveParts(*context_, to_move_.directory, {to_move_.without.generations[0].number});
  });
  if (removed.ok() || context_->rank() != 0 || !base::LogEnabled()) return;
  static_cast<void>(base::OrOutOfMemory([&] {
    base::Log(LogLevel::kWarning,
              "what " + to_move_.directory +
                  " has besides its pairs goes with the next open: " + removed.ToString());
    return Status();
  }));
}

void Redistribution::Stop() {
  if (job_ != nullptr) job_->Stop();
  to_move_.chain.reset();
  to_move_.engine.reset();
  context_.reset();
}

}  // namespace quire::kv
