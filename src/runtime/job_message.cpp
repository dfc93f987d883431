// The messages between the ranks of a job, and how a Job handles them.
#include "runtime/job_message.h"

#include <mutex>
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/text/coding.h"
#include "runtime/agreement.h"
#include "runtime/job.h"

namespace quire::runtime {

std::string EncodeJobMessage(int step, const Status& status, Slice note) {
  std::string text;
  base::PutVarint(&text, static_cast<uint64_t>(step));
  return text + EncodeOutcome(status, note);
}

Status DecodeJobMessage(Slice text, JobMessage* news) {
  base::ByteReader reader(text);
  uint64_t step = 0;
  Slice note;
  if (!reader.Varint(&step) || step > static_cast<uint64_t>(kJobAsk)) {
    return Status(Code::kCorruption, "news of a background job cannot be read");
  }
  QUIRE_RETURN_IF_ERROR(DecodeOutcome(reader.rest(), &news->status, &note));
  news->step = static_cast<int>(step);
  news->note = std::string(note);
  return Status();
}

Status FromRank(int rank, const Status& answered) {
  if (answered.code() != Code::kNotFound) return answered;
  return Status(Code::kPeerFailed, "rank " + std::to_string(rank) + " has given it up");
}

Status Job::OnMessage(int source, Slice message, std::string* answer) {
  JobMessage news;
  QUIRE_RETURN_IF_ERROR(DecodeJobMessage(message, &news));
  if (news.step == kJobAsk) {
    EndLater();
    *answer = Present();
    if (exchange_->rank() != 0) return Status();
    SetAcknowledged(source);
    // The program on rank 0 may call neither Wait nor Ready, and the other ranks learn of the
    // missing rank from rank 0 alone. Without memory for this, the next question repeats it.
    static_cast<void>(base::OrOutOfMemory([this] {
      context_->progress_queue->Run([self = shared_from_this()] { self->LookAfterMissing(); });
      return Status();
    }));
    return Status();
  }
  // Without memory, the job ends here: otherwise the sender would not learn of it, or could not
  // inform the other ranks.
  Guarded([&] {
    if (exchange_->rank() == 0) {
      TakeReport(source, {news.step, news.status, std::move(news.note)});
    } else {
      EnterStep(news.step, news.status, std::move(news.note));
    }
  });
  return Status();
}

// Returns the step of the job on this rank, and whether this rank's part makes no progress. Rank 0
// returns the news that it last announced, and whether any rank's part makes no progress. Neither
// waits nor sends.
std::string Job::Present() const {
  const int missing = Missing();
  const bool zero = exchange_->rank() == 0;
  const Status hindrance = zero || missing == exchange_->rank() ? Hindrance(missing) : Status();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!zero) {
    if (ended_) return EncodeJobMessage(kJobEnd, status_, {});
    return EncodeJobMessage(step_, starved_ ? base::OutOfMemory() : hindrance, {});
  }
  JobMessage news;
  if (announced_end_ || hindrance.ok() || !DecodeJobMessage(announced_, &news).ok())
    return announced_;
  return EncodeJobMessage(news.step, hindrance, news.note);
}

// Handles the state that the awaited rank reports of itself.
void Job::TakePresent(int source, Slice text) {
  JobMessage news;
  const Status read = DecodeJobMessage(text, &news);
  if (!read.ok()) return Fail(read);
  const bool hindered = news.step != kJobEnd && news.status.code() == Code::kTimedOut;
  TakeAnswer(source, hindered ? std::exchange(news.status, Status()) : Status());
  if (exchange_->rank() != 0) return EnterStep(news.step, news.status, std::move(news.note));
  if (news.step == kJobEnd) {
    // The job ended there by itself, because the rank could not report. Counts as the end of this
    // step and all later ones.
    const Status why =
        news.status.ok() ? Status(Code::kPeerFailed, "it ended before the others") : news.status;
    return TakeReport(source, {kJobEnd, why, {}});
  }
  if (!news.status.ok()) return TakeReport(source, {news.step, news.status, {}});
  bool behind = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    behind = news.step < step_;
  }
  if (behind) Announce(source);
}

// Takes a report, on rank 0. No rank reports a step before all ranks have ended the previous one. A
// rank that does not know whether its report arrived sends it again: the first one counts.
void Job::TakeReport(int source, Report report) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Report& taken = reports_[static_cast<size_t>(source)];
    if (ended_ || stopped_ || report.step < step_ || report.step <= taken.step) return;
    taken = std::move(report);
    for (const Report& one : reports_) {
      if (one.step < step_) return exchange_->Nudge(this);
    }
    work_ns_ = NowNs();
  }
  const std::shared_ptr<Job> self = weak_from_this().lock();
  if (self != nullptr)
    context_->progress_queue->Run([self] { self->Guarded([&] { self->Decide(); }); });
  exchange_->Nudge(this);
}

// Decides, on rank 0, how the job goes on when all ranks have finished a step.
void Job::Decide() {
  const std::lock_guard<std::mutex> slice_lock(slice_mutex_);
  Status status;
  std::vector<std::string> notes;
  int step = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_ || stopped_) return;
    step = step_;
    for (size_t rank = 0; rank < reports_.size(); ++rank) {
      Report& report = reports_[rank];
      notes.push_back(std::move(report.note));
      if (!report.status.ok() && status.ok()) {
        status = reports_.size() == 1 ? report.status
                                      : report.status.WithContext("rank " + std::to_string(rank));
      }
      report = Report();
    }
  }
  std::string news;
  status = Conclude(step, std::move(status), notes, &news);
  const bool last = !status.ok() || step + 1 == work_->step_count();
  if (status.ok() || step == kJobUndo || !work_->CanUndo(step)) {
    return EnterNext(last ? kJobEnd : step + 1, status, std::move(news));
  }
  undone_for_ = status;
  EnterNext(kJobUndo, Status(), {});
}

// Returns the outcome of a step that all ranks have finished.
Status Job::Conclude(int step, Status status, const std::vector<std::string>& notes,
                     std::string* news) {
  if (step == kJobUndo) return undone_for_;
  if (!status.ok()) return AfterFailure(status);
  const Status taken = base::OrOutOfMemory([&] {
    QUIRE_ASSIGN_OR_RETURN(*news, work_->TakeReports(step, notes));
    return Status();
  });
  return taken.ok() ? taken : AfterFailure(taken);
}

Status Job::AfterFailure(const Status& why) const {
  return base::OrOutOfMemory([&] { return work_->AfterFailure(why); });
}

void Job::EnterNext(int step, const Status& status, std::string news) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (announced_end_) return;  // meanwhile a rank has died
    announced_ = EncodeJobMessage(step, status, news);
    announced_status_ = status;
    announced_end_ = step == kJobEnd;
  }
  for (int rank = 1; rank < exchange_->size(); ++rank) Announce(rank);
  EnterStep(step, status, std::move(news));
}

// Sends the news of rank 0 to `rank`, and once more if one of the two had no memory for them: the
// other ranks continue, and their next call would wait for `rank`. A rank without news asks for
// them.
void Job::Announce(int rank, bool again) {
  const Status sent = base::OrOutOfMemory([&] { return SendState(rank, again); });
  if (sent.code() == Code::kOutOfMemory && again) Announce(rank, false);
}

Status Job::SendState(int rank, bool again) {
  std::string message;
  bool last = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_) return Status();  // the exchange may be gone
    message = announced_;
    last = announced_end_;
  }
  const auto answered = [self = shared_from_this(), rank, last,
                         again](const comm::Outcome& outcome) {
    const Status& status = outcome.status;
    if (status.code() == Code::kOutOfMemory && again) return self->AnnounceAgain(rank);
    // The rank is dead, or has abandoned the job: either way it needs no news.
    const bool gone = status.code() == Code::kPeerFailed || status.code() == Code::kNotFound;
    if (last && (status.ok() || gone)) self->SetAcknowledged(rank);
  };
  Status sent = exchange_->StartThen(rank, channel_, {}, message, answered);
  if (last && sent.code() == Code::kPeerFailed) SetAcknowledged(rank);
  return sent;
}

void Job::AnnounceAgain(int rank) {
  static_cast<void>(base::OrOutOfMemory([&] {
    context_->progress_queue->Run(
        [self = shared_from_this(), rank] { self->Announce(rank, false); });
    return Status();
  }));
}

// Notes on rank 0 that `rank` has received the end, if the job has ended.
void Job::SetAcknowledged(int rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (announced_end_) acknowledged_[static_cast<size_t>(rank)] = true;
}

void Job::EnterStep(int step, const Status& status, std::string news) {
  if (step == kJobEnd) return End(status);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_ || step <= step_) return;  // received already
    step_ = step;
    step_ns_ = work_ns_ = NowNs();
    news_ = std::move(news);
    fresh_ = true;
    through_ = false;
    starved_ = false;
  }
  Schedule();
}

void Job::End(const Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_ || stopped_) return;
    status_ = status;
    ended_ = true;
    work_ns_ = NowNs();
  }
  Schedule();
}

void Job::Resume() {
  Guarded([this] { Schedule(); });
}

// Ends the job because a rank is missing for good. Rank 0 must notify the other ranks: no other
// rank does.
void Job::Fail(const Status& status) {
  // On rank 0, a slice may be completing the job at this moment: then its result counts.
  std::unique_lock<std::mutex> slice_lock(slice_mutex_, std::defer_lock);
  if (exchange_->rank() == 0) slice_lock.lock();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_ || stopped_) return;
  }
  const Status why = AfterFailure(status.WithContext(what_));
  if (exchange_->rank() == 0) return EnterNext(kJobEnd, why, {});
  End(why);
}

}  // namespace quire::runtime
