#include "kv/persistence/checkpoint.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "base/core/log_sink.h"
#include "base/core/out_of_memory.h"
#include "base/text/coding.h"
#include "base/threads/sync_point.h"
#include "io/files/machine.h"
#include "io/paths/made_paths.h"
#include "kv/generations/locked_database.h"
#include "kv/persistence/checkpoint_files.h"
#include "kv/persistence/checkpoint_part.h"
#include "runtime/agreement.h"

namespace quire::kv {
namespace {

// The data that rank 0 prepares and sends to the others.
struct Prepared {
  uint64_t number = 0;
  uint64_t earlier = 0;                // the newest complete one; 0: none
  std::unique_ptr<io::FileLock> lock;  // rank 0
  io::MadePaths made;                  // rank 0: until the checkpoint begins
  std::vector<CheckpointFound> left;   // rank 0: by checkpoints that were interrupted
};

std::string PartName(int rank) {
  return kPartDirectoryPrefix + std::to_string(rank);
}

// Begins a directory for the next one.
Status PrepareDirectory(io::FileSystem& fs, const CheckpointRequest& request, Prepared* prepared) {
  const std::string home = CheckpointHome(request.path, request.database);
  QUIRE_RETURN_IF_ERROR(prepared->made.MakeDirectory(fs, request.path));
  QUIRE_RETURN_IF_ERROR(prepared->made.MakeDirectory(fs, home));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<CheckpointFound> found, FindCheckpoints(fs, home));
  for (const CheckpointFound& one : found) {
    prepared->number = std::max(prepared->number, one.number);
    if (one.state == CheckpointState::kComplete) prepared->earlier = one.number;
    const bool left =
        one.state == CheckpointState::kFailed || one.state == CheckpointState::kDropped;
    if (left) prepared->left.push_back(one);
  }
  ++prepared->number;
  const std::string partial = PartialDirectory(home, prepared->number);
  QUIRE_RETURN_IF_ERROR(fs.MakeDirectory(partial));
  prepared->made.AddDirectory(fs, partial);
  QUIRE_ASSIGN_OR_RETURN(prepared->lock,
                         prepared->made.Lock(fs, LockedDatabase::LockPath(partial),
                                             io::ProcessDescription()));
  return Status();
}

Status AgreeOnPrepared(runtime::ContextState& context, const CheckpointRequest& request,
                       Prepared* prepared) {
  Status status;
  if (context.rank() == 0) {
    const std::lock_guard<std::mutex> lock(context.checkpoints_mutex);
    status = io::AgainIfTakenBack([&] {
      *prepared = Prepared();
      return PrepareDirectory(*context.fs, request, prepared);
    });
  }
  std::string told;
  base::PutFixed(&told, prepared->number);
  base::PutFixed(&told, prepared->earlier);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                         runtime::GatherAgreed(*context.exchange, status, told));
  base::ByteReader reader(all[0]);
  if (!reader.Fixed(&prepared->number) || !reader.Fixed(&prepared->earlier)) {
    return Status(Code::kCorruption, "rank 0 does not say which checkpoint it begins");
  }
  prepared->made.Keep();
  return Status();
}

class CheckpointWork final : public runtime::JobWork {
 public:
  CheckpointWork(std::shared_ptr<runtime::ContextState> context, CheckpointRequest request,
                 std::shared_ptr<const engine::Capture> capture, Prepared prepared)
      : context_(std::move(context)),
        fs_(*context_->fs),
        request_(std::move(request)),
        prepared_(std::move(prepared)),
        home_(CheckpointHome(request_.path, request_.database)),
        partial_(PartialDirectory(home_, prepared_.number)),
        part_(fs_, Places(), std::move(capture), &bytes_done) {
    bytes_total = part_.bytes();
  }

  int step_count() const override { return 2; }
  Result<State> Advance(int step) override {
    if (step == 0) return AdvancePart();
    return context_->rank() == 0 ? AdvancePublished() : State::kThrough;
  }
  std::string Report(int step) override { return step == 0 ? part_.report() : std::string(); }
  Result<std::string> TakeReports(int step, const std::vector<std::string>& reports) override;
  // Published or not: that is one rename.
  bool CanUndo(int step) override {
    return step == 0 || (!published_ && !may_be_published_ && IsPartial());
  }
  void Undo() override { part_.Remove(); }
  Status AfterFailure(const Status& why) const override;
  void Finish(const Status& status) override;

 private:
  CheckpointPart::Places Places() const;
  Result<State> AdvancePart();
  Result<State> AdvancePublished();
  Status Rename();
  bool IsPartial() const;
  Result<bool> DropUnlessGone(CheckpointFound* found);
  Result<bool> DropUnheld(CheckpointFound* left);
  void DropLeftover();
  void FindOld();
  void DropOld();
  void LogStays(const Status& why) const;
  Status SayWhy(const Status& why);

  const std::shared_ptr<runtime::ContextState> context_;
  io::FileSystem& fs_;
  const CheckpointRequest request_;
  Prepared prepared_;
  const std::string home_;
  const std::string partial_;
  CheckpointPart part_;
  CommitRecord record_;                          // rank 0
  std::unique_ptr<io::FileLock> leftover_lock_;  // rank 0: of the leftover that is being removed
  std::vector<CheckpointFound> old_;             // rank 0: those to remove, the oldest is the last
  bool published_ = false;                       // rank 0: it is there, and durable
  bool may_be_published_ = false;  // rank 0: what became of the rename, or will, is not known
};

CheckpointPart::Places CheckpointWork::Places() const {
  CheckpointPart::Places places;
  places.source = request_.source;
  places.target = partial_ + "/" + PartName(context_->rank());
  places.number = prepared_.number;
  if (prepared_.earlier != 0) {
    places.earlier = CheckpointDirectory(home_, prepared_.earlier);
    places.earlier_part = places.earlier + "/" + PartName(context_->rank());
  }
  return places;
}

Result<runtime::JobWork::State> CheckpointWork::AdvancePart() {
  // Piece by piece, and not while the others wait in a collective call: there may be many files.
  if (!prepared_.left.empty()) {
    DropLeftover();
    return State::kAgain;
  }
  const Result<bool> done = part_.Advance();
  if (done.ok()) return *done ? State::kThrough : State::kAgain;
  // Without this part rank 0 does not publish. The others remove theirs when rank 0 says so.
  part_.Remove();
  return AsFailure(done.status());
}

Result<std::string> CheckpointWork::TakeReports(int step, const std::vector<std::string>& reports) {
  if (step != 0) return std::string();
  for (const std::string& report : reports) {
    QUIRE_ASSIGN_OR_RETURN(CommitRecord::Part part, CheckpointPart::ReadReport(report));
    record_.parts.push_back(std::move(part));
  }
  return std::string();
}

// Another checkpoint may have been faster.
Result<bool> CheckpointWork::DropUnlessGone(CheckpointFound* found) {
  const Result<bool> gone = DropSome(fs_, home_, found);
  return gone.status().code() == Code::kNotFound ? true : gone;
}

// Returns true once it is gone. Another process may have begun it since it was found, or removed
// it.
Result<bool> CheckpointWork::DropUnheld(CheckpointFound* left) {
  if (leftover_lock_ == nullptr) {
    Result<std::unique_ptr<io::FileLock>> lock =
        fs_.Lock(LockedDatabase::LockPath(left->directory), io::ProcessDescription());
    const Code code = lock.status().code();
    if (code == Code::kBusy || code == Code::kNotFound) return true;
    QUIRE_RETURN_IF_ERROR(lock.status());
    leftover_lock_ = std::move(*lock);
  }
  return DropUnlessGone(left);
}

// Removes some of an interrupted checkpoint. If this fails, it stays, and does no harm.
void CheckpointWork::DropLeftover() {
  CheckpointFound& left = prepared_.left.back();
  const Result<bool> gone = DropUnheld(&left);
  if (gone.ok() && !*gone) return;
  if (!gone.ok() && base::LogEnabled()) {
    base::Log(LogLevel::kWarning, left.directory +
                                      ", which an interrupted checkpoint left, cannot be "
                                      "removed: " +
                                      gone.status().ToString());
  }
  leftover_lock_.reset();
  prepared_.left.pop_back();
}

// Rank 0. From the rename on the checkpoint is there; those that it replaces go piece by piece.
Result<runtime::JobWork::State> CheckpointWork::AdvancePublished() {
  if (!published_) {
    QUIRE_RETURN_IF_ERROR(AsFailure(Rename()));
    FindOld();
  } else {
    DropOld();
  }
  return old_.empty() ? State::kThrough : State::kAgain;
}

Status CheckpointWork::Rename() {
  const std::lock_guard<std::mutex> lock(context_->checkpoints_mutex);
  record_.database = request_.database;
  record_.partitioner = request_.partitioner;
  record_.options = request_.options;
  record_.time = io::UnixTime();
  QUIRE_RETURN_IF_ERROR(
      io::ReplaceFile(fs_, partial_ + "/" + kCommitName, EncodeCommitRecord(record_)));
  const std::string complete = CheckpointDirectory(home_, prepared_.number);
  base::SyncPoint("kv.checkpoint.committed");
  may_be_published_ = true;  // until the end of this is known: any step may find no memory
  const Status renamed = base::OrOutOfMemory([&] { return fs_.Rename(partial_, complete); });
  if (!renamed.ok()) {
    may_be_published_ = !IsPartial();
    return renamed;
  }
  base::SyncPoint("kv.checkpoint.renamed");
  const Status durable = base::OrOutOfMemory([&] { return fs_.SyncDirectory(home_); });
  if (!durable.ok()) {
    // All ranks receive this failure. If the rename cannot be taken back either, the checkpoint is
    // complete.
    const Status back = fs_.Rename(complete, partial_);
    may_be_published_ = !back.ok() || !fs_.SyncDirectory(home_).ok();
    return durable;
  }
  published_ = true;
  base::SyncPoint("kv.checkpoint.durable");
  // Not before: other processes may remove a checkpoint that no process has locked. A lock file
  // that stays means nothing.
  static_cast<void>(fs_.Unlink(LockedDatabase::LockPath(complete)));
  return Status();
}

bool CheckpointWork::IsPartial() const {
  const Result<bool> there = fs_.Exists(partial_);
  return there.ok() && *there;
}

// The others do nothing after their parts: rank 0 alone knows, and what it has published is whole.
Status CheckpointWork::AfterFailure(const Status& why) const {
  if (published_) return Status();
  if (context_->rank() == 0 && !may_be_published_) return why;
  return Status(why.code(), why.message() + "; whether checkpoint " +
                                std::to_string(prepared_.number) +
                                " is there is not known: see `quire checkpoint list " +
                                request_.path + "`");
}

// A later checkpoint that is complete before this one does not count. Else this one would be the
// oldest, and go although its event says that it is there.
void CheckpointWork::FindOld() {
  if (request_.keep == 0) return;
  Result<std::vector<CheckpointFound>> found = FindCheckpoints(fs_, home_);
  if (!found.ok()) return LogStays(found.status());
  std::erase_if(*found, [this](const auto& one) {
    const bool later = one.number > prepared_.number;
    return later || one.state != CheckpointState::kComplete;
  });
  const size_t keep = static_cast<size_t>(request_.keep);
  found->resize(found->size() - std::min(keep, found->size()));
  std::reverse(found->begin(), found->end());
  old_ = std::move(*found);
}

// Removes some of the oldest checkpoint.
void CheckpointWork::DropOld() {
  const Result<bool> gone = DropUnlessGone(&old_.back());
  if (!gone.ok()) {
    LogStays(gone.status());
    old_.clear();
  } else if (*gone) {
    old_.pop_back();
  }
}

void CheckpointWork::LogStays(const Status& why) const {
  if (!base::LogEnabled()) return;
  base::Log(LogLevel::kWarning, "older checkpoints of " + request_.database +
                                    " cannot be removed: " + why.ToString());
}

void CheckpointWork::Finish(const Status& status) {
  leftover_lock_.reset();
  const std::unique_ptr<io::FileLock> lock = std::move(prepared_.lock);  // until this is said
  part_.End();
  if (context_->rank() == 0 && !status.ok()) {
    const Status said = SayWhy(status);
    if (base::LogEnabled()) {
      base::Log(LogLevel::kError, "checkpoint " + std::to_string(prepared_.number) + " of " +
                                      request_.database + " failed: " + status.ToString() +
                                      (said.ok() ? "" : "; " + said.ToString()));
    }
  }
}

Status CheckpointWork::SayWhy(const Status& why) {
  QUIRE_ASSIGN_OR_RETURN(const bool there, fs_.Exists(partial_));
  if (!there) return Status();  // published; what came after that failed
  return io::ReplaceFile(fs_, partial_ + "/" + kFailedName, why.ToString() + "\n");
}

}  // namespace

Status CheckCheckpointPath(const std::string& path) {
  if (!path.empty() && path[0] == '/' && path.find('\n') == std::string::npos) return Status();
  return Status(Code::kInvalidArgument, "the checkpoint path \"" + path +
                                            "\" is not absolute; give one that begins with /");
}

void RunningCheckpoints::MakeRoom() {
  std::erase_if(jobs_,
                [](const std::shared_ptr<runtime::Job>& other) { return other->finished(); });
  jobs_.reserve(jobs_.size() + 1);
}

Result<std::unique_ptr<Event>> RunningCheckpoints::Start(
    const std::shared_ptr<runtime::ContextState>& context, uint32_t number,
    const CheckpointRequest& request, std::shared_ptr<const engine::Capture> capture) {
  Prepared prepared;
  QUIRE_RETURN_IF_ERROR(AgreeOnPrepared(*context, request, &prepared));
  const std::string what = "checkpoint " + std::to_string(prepared.number) + " of " +
                           request.database + " in " + request.path;
  std::shared_ptr<runtime::Job> job;
  QUIRE_ASSIGN_OR_RETURN(
      std::unique_ptr<Event> event,
      runtime::Job::StartTogether(context, number, what,
                                  std::make_unique<CheckpointWork>(
                                      context, request, std::move(capture), std::move(prepared)),
                                  &job));
  jobs_.push_back(std::move(job));
  return event;
}

// They read this rank's files. Their events, and the log, report how they ended. If a step is stuck
// on this rank, giving it up would wait for that step as well.
Status RunningCheckpoints::Await() {
  Status first;
  for (const std::shared_ptr<runtime::Job>& checkpoint : jobs_) {
    Status waited(Code::kTimedOut);
    while (waited.code() == Code::kTimedOut && !checkpoint->finished()) {
      waited = base::OrOutOfMemory([&] { return checkpoint->Wait(); });
      if (!checkpoint->AwaitsThisRank()) break;
    }
    if (!checkpoint->finished() && first.ok()) first = waited;
  }
  return first;
}

void RunningCheckpoints::Stop() {
  for (const std::shared_ptr<runtime::Job>& checkpoint : jobs_) {
    // One that has ended may still have to send its outcome to another rank.
    if (!checkpoint->finished()) checkpoint->Stop();
  }
  jobs_.clear();
}

}  // namespace quire::kv
