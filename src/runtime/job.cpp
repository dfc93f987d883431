#include "runtime/job.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/core/log_sink.h"
#include "base/core/out_of_memory.h"
#include "base/text/units.h"
#include "base/threads/forked_child.h"
#include "runtime/job_message.h"

namespace quire::runtime {
namespace {

constexpr uint64_t kRetryNs = base::kNsPerMs;  // of what found no memory

class JobEvent final : public Event {
 public:
  explicit JobEvent(std::shared_ptr<Job> job) : job_(std::move(job)) {}
  ~JobEvent() override {
    if (process_.forked()) base::LeaveInChild(job_);
  }
  bool Ready() override { return !process_.MayCall() || job_->Ready(); }
  Status Wait() override {
    QUIRE_RETURN_IF_ERROR(process_.Check("the event"));
    return job_->Wait();
  }
  EventProgress Progress() const override {
    return process_.forked() ? EventProgress() : job_->Progress();
  }

 private:
  const base::OwnProcess process_;
  std::shared_ptr<Job> job_;
};

// If a job cannot be created, its work is destroyed at once, and not with the context.
template <typename Part>
auto OrStop(const std::shared_ptr<Job>& job, const Part& part) -> decltype(part()) {
  try {
    return part();
  } catch (const std::bad_alloc&) {
    job->Stop();
    throw;
  }
}

}  // namespace

std::shared_ptr<Job> Job::Prepare(const std::shared_ptr<ContextState>& context, uint32_t number,
                                  std::string what, std::unique_ptr<JobWork> work) {
  std::shared_ptr<Job> job(new Job(context, std::move(what), std::move(work)));
  job->channel_ = Channel(number, kJobOperation);
  std::vector<std::shared_ptr<Job>> settled;  // stopped below: they may outlive the exchange
  {
    const std::lock_guard<std::mutex> lock(context->mutex);
    const auto first =
        std::stable_partition(context->jobs.begin(), context->jobs.end(),
                              [](const std::shared_ptr<Job>& other) { return !other->Settled(); });
    settled.assign(first, context->jobs.end());
    context->jobs.erase(first, context->jobs.end());
    context->jobs.push_back(job);
    job->stopped_ = false;
  }
  for (const std::shared_ptr<Job>& other : settled) other->Stop();
  OrStop(job, [&] {
    job->work_->Attach(job);
    job->Serve();
  });
  return job;
}

std::shared_ptr<Job> Job::Start(const std::shared_ptr<ContextState>& context, uint32_t number,
                                std::string what, std::unique_ptr<JobWork> work) {
  std::shared_ptr<Job> job = Prepare(context, number, std::move(what), std::move(work));
  OrStop(job, [&] { job->Schedule(); });
  return job;
}

Result<std::unique_ptr<Event>> Job::StartTogether(const std::shared_ptr<ContextState>& context,
                                                  uint32_t number, std::string what,
                                                  std::unique_ptr<JobWork> work,
                                                  std::shared_ptr<Job>* job) {
  const std::shared_ptr<Job> made = Prepare(context, number, std::move(what), std::move(work));
  std::unique_ptr<Event> event;
  const Status agreed = OrStop(made, [&] {
    event = std::make_unique<JobEvent>(made);
    return context->exchange->Agree(Status());
  });
  if (!agreed.ok()) {
    made->Stop();
    return agreed;
  }
  if (job != nullptr) *job = made;
  made->Guarded([&] { made->Schedule(); });
  return event;
}

Job::Job(std::shared_ptr<ContextState> context, std::string what, std::unique_ptr<JobWork> work)
    : context_(std::move(context)),
      exchange_(context_->exchange.get()),
      what_(std::move(what)),
      work_(std::move(work)),
      work_ns_(NowNs()),
      reports_(static_cast<size_t>(exchange_->size())),
      announced_(EncodeJobMessage(0, Status(), {})),
      acknowledged_(static_cast<size_t>(exchange_->size())),
      step_ns_(NowNs()) {}

Job::~Job() {
  Stop();
}

void Job::Serve() {
  exchange_->Serve(channel_, [this](int source, Slice request, std::string* answer) {
    return OnMessage(source, request, answer);
  });
}

bool Job::Settled() const {
  if (!finished_) return false;
  if (exchange_->rank() != 0) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::find(acknowledged_.begin() + 1, acknowledged_.end(), false) == acknowledged_.end();
}

void Job::Stop() {
  const Status given_up = base::OrOutOfMemory(
      [this] { return Status(Code::kInvalidArgument, what_ + " was given up unfinished"); });
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    if (!ended_) status_ = given_up;
  }
  exchange_->Serve(channel_, {});
  const std::lock_guard<std::mutex> slice_lock(slice_mutex_);
  if (finished_) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!ended_) status_ = AfterFailure(given_up);
  }
  Finish();
}

EventProgress Job::Progress() const {
  return {work_->bytes_done.load(std::memory_order_relaxed),
          work_->bytes_total.load(std::memory_order_relaxed)};
}

// ---- This rank's part ----

void Job::Schedule() {
  const std::shared_ptr<Job> self = weak_from_this().lock();
  if (self == nullptr || queued_.exchange(true)) return;
  work_ns_ = NowNs();
  for_program_ = false;  // after work_ns_: an older work_ns_ must not count
  const auto slice = [self] { self->Guarded([&] { self->RunSlice(); }); };
  int step = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    step = step_;
  }
  try {
    if (step != kJobUndo && work_->sends(step)) {
      context_->progress_queue->Run(slice);
    } else {
      context_->blocking_executor->Schedule(slice);
    }
  } catch (const std::bad_alloc&) {
    queued_ = false;
    throw;
  }
  exchange_->Nudge(this);
}

// Ends the job if there was no memory to report something. If there is none for this either, the
// thread that waits for the job tries again, and so does a question of another rank.
void Job::EndWithoutMemory() noexcept {
  OrLater([this] {
    context_->progress_queue->Run(
        [self = shared_from_this()] { self->OrLater([&] { self->EndStarved(); }); });
  });
}

template <typename Part>
void Job::OrLater(const Part& part) noexcept {
  const Status done = base::OrOutOfMemory([&] {
    part();
    return Status();
  });
  if (!done.ok()) unended_ = true;
}

void Job::EndStarved() {
  if (exchange_->rank() == 0) {
    Fail(base::OutOfMemory());
    End(AnnouncedStatus());  // if rank 0 has already announced an end
  } else {
    ReportShortage();
  }
  Schedule();  // if the job had already ended
}

void Job::EndLater() noexcept {
  if (unended_.exchange(false)) EndWithoutMemory();
}

// Reports that this rank ran out of memory. Not on rank 0. Does not end the job here: rank 0 may
// have completed the job meanwhile, and it decides how the job ends.
void Job::ReportShortage() {
  Report report{0, base::OutOfMemory(), {}};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_ || stopped_) return;
    through_ = true;
    starved_ = true;
    report.step = step_;
  }
  // If there is no memory for the report either, rank 0 asks later.
  static_cast<void>(base::OrOutOfMemory([&] {
    SendReport(report);
    return Status();
  }));
}

Status Job::AnnouncedStatus() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return announced_end_ ? announced_status_ : base::OutOfMemory();
}

void Job::RunSlice() {
  const std::lock_guard<std::mutex> slice_lock(slice_mutex_);
  queued_ = false;
  int step = 0;
  bool fresh = false;
  std::string news;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_ || finished_) return;
    step = ended_ ? kJobEnd : step_;
    if (!ended_ && through_) return;
    work_ns_ = NowNs();
    fresh = std::exchange(fresh_, false);
    if (fresh) news = std::move(news_);
  }
  if (step == kJobEnd) {
    Finish();
    return exchange_->Nudge(this);
  }
  std::string note;
  const Result<JobWork::State> state = CallWork(step, fresh ? &news : nullptr, &note);
  if (!state.ok()) return EndStep({step, state.status(), {}});
  if (*state == JobWork::State::kThrough) return EndStep({step, Status(), std::move(note)});
  if (*state == JobWork::State::kForProgram) for_program_ = true;
  if (*state == JobWork::State::kAgain) Schedule();
}

// Calls the work, and treats lack of memory as its failure.
Result<JobWork::State> Job::CallWork(int step, const std::string* news, std::string* note) {
  return base::OrOutOfMemory([&]() -> Result<JobWork::State> {
    if (step == kJobUndo) {
      work_->Undo();
      return JobWork::State::kThrough;
    }
    if (news != nullptr) work_->TakeDecision(step, *news);
    QUIRE_ASSIGN_OR_RETURN(const JobWork::State state, work_->Advance(step));
    if (state == JobWork::State::kThrough) *note = work_->Report(step);
    return state;
  });
}

// Sets finished_ regardless of the result: no waiting thread may wait forever.
void Job::Finish() {
  try {
    work_->Finish(status_);
  } catch (const std::bad_alloc&) {
    base::Log(LogLevel::kError, "no memory to end a job in the background");
  }
  finished_ = true;
}

// Reports to rank 0 from the progress queue, which may send messages.
void Job::EndStep(Report report) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    through_ = true;
  }
  if (exchange_->rank() == 0) return TakeReport(0, std::move(report));
  context_->progress_queue->Run([self = shared_from_this(), report = std::move(report)] {
    self->Guarded([&] { self->SendReport(report); });
  });
  exchange_->Nudge(this);
}

void Job::SendReport(const Report& report) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_) return;
  }
  const int step = report.step;
  const auto answered = [self = shared_from_this(), step](const comm::Outcome& outcome) {
    const Status& status = outcome.status;
    if (!status.ok()) self->Guarded([&] { self->NotReported(step, FromRank(0, status)); });
  };
  const Status sent = exchange_->StartThen(
      0, channel_, {}, EncodeJobMessage(step, report.status, report.note), answered);
  if (!sent.ok()) NotReported(step, sent);
}

// Handles a report that did not arrive. If rank 0 or this rank had no memory for it, rank 0 asks
// after a deadline.
void Job::NotReported(int step, const Status& why) {
  if (why.code() != Code::kOutOfMemory) return End(AfterFailure(why.WithContext(what_)));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (step == step_) starved_ = true;
}

// ---- Waiting ----

// Does the work that only this thread can do.
void Job::Pump() {
  context_->progress_queue->RunPending();
  while (context_->blocking_executor->RunOne()) {
  }
}

bool Job::Ready() {
  EndLater();
  if (!finished_ && !exchange_->has_handler_thread()) {
    if (!exchange_->CheckThread().ok()) return finished_;  // left to a thread that may call
    exchange_->Progress();
    Pump();
  }
  if (!finished_) LookAfterMissing();
  return finished_;
}

// Does not touch the exchange, which may be gone.
bool Job::IsOver() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ended_ || stopped_;
}

// Serves callers that never wait: checks whether the missing rank lives and, after a deadline, asks
// it for its state. If there is no memory for this, a later call repeats it.
void Job::LookAfterMissing() {
  if (IsOver()) return;
  static_cast<void>(base::OrOutOfMemory([this] {
    LookForMissing();
    return Status();
  }));
}

void Job::LookForMissing() {
  const int missing = Missing();
  if (missing == comm::Exchange::kNobody || missing == exchange_->rank()) return;
  const Status lives = exchange_->PeerStatus(missing);
  // Sending may have to wait for room, so the progress queue does it.
  if (!lives.ok()) {
    context_->progress_queue->Run(
        [self = shared_from_this(), lives] { self->Guarded([&] { self->Fail(lives); }); });
  } else if (MayAsk(missing)) {
    context_->progress_queue->Run(
        [self = shared_from_this(), missing] { self->StartAsking(missing); });
  }
}

uint64_t Job::NowNs() const {
  return exchange_->transport().clock().NowNs();
}

uint64_t Job::TimeoutNs() const {
  return context_->options.timeout_ms * base::kNsPerMs;
}

// Returns true once for each deadline for which a rank has been missing.
bool Job::MayAsk(int missing) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t since_ns = IsWatched(missing) ? asked_ns_ : step_ns_;
  if (NowNs() - since_ns < TimeoutNs()) return false;
  Watch(missing);
  return true;
}

// Here and in Watch: with mutex_ held.
bool Job::IsWatched(int missing) const {
  return watched_rank_ == missing && watched_step_ == step_;
}

// Notes that `missing` is asked now.
void Job::Watch(int missing) {
  if (!IsWatched(missing)) {
    watched_rank_ = missing;
    watched_step_ = step_;
    unanswered_since_ns_.reset();
    hindrance_ = Status();
  }
  const uint64_t now_ns = NowNs();
  // If it was not asked for a long time, it is unknown whether it would have answered.
  if (now_ns - asked_ns_ >= 2 * TimeoutNs()) unanswered_since_ns_.reset();
  asked_ns_ = now_ns;
  if (!unanswered_since_ns_.has_value()) unanswered_since_ns_ = asked_ns_;
}

void Job::StartAsking(int missing) {
  if (IsOver()) return;
  // Handling the answer may send messages, which the callback must not do.
  const auto answered = [self = shared_from_this(), missing](const comm::Outcome& outcome) {
    self->context_->progress_queue->Run(
        [self, missing, asked = outcome.status, text = std::string(outcome.answer)] {
          self->Guarded([&] { self->TakeAsked(missing, asked, text); });
        });  // without memory for this, the job asks again later
  };
  const Status sent = base::OrOutOfMemory([&] {
    return exchange_->StartThen(missing, channel_, {}, EncodeJobMessage(kJobAsk, Status(), {}),
                                answered);
  });
  // Without memory or room, the job asks again after the next deadline.
  if (sent.ok() || sent.code() == Code::kTimedOut || sent.code() == Code::kOutOfMemory) return;
  Guarded([&] { TakeAsked(missing, sent, {}); });
}

// Notes the rank's answer. It counts for the step in which the rank was asked.
void Job::TakeAnswer(int rank, Status hindrance) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!IsWatched(rank)) return;
  unanswered_since_ns_.reset();
  answered_ns_ = NowNs();
  hindrance_ = std::move(hindrance);
}

// Returns whether the question or its answer was lost, which says nothing about the rank.
bool Job::IsUnheard(int missing, const Status& asked) const {
  return asked.code() == Code::kTimedOut ||
         (asked.code() == Code::kOutOfMemory && exchange_->PeerStatus(missing).ok());
}

void Job::TakeAsked(int missing, const Status& asked, Slice present) {
  if (IsOver() || IsUnheard(missing, asked)) return;
  if (!asked.ok()) return Fail(FromRank(missing, asked));
  TakePresent(missing, present);
  if (Starved()) ReportShortage();
}

// Returns whether the waiting thread has something to do itself.
bool Job::MayPump() const {
  return context_->progress_queue->pending() || (queued_ && context_->manual_background);
}

// Returns the rank for which the job waits; kNobody if the job has ended on this rank.
int Job::Missing() const {
  if (finished_) return comm::Exchange::kNobody;
  const std::lock_guard<std::mutex> lock(mutex_);
  const int rank = exchange_->rank();
  if (ended_ || !through_) return rank;
  if (rank != 0) return 0;
  const auto missing = std::find_if(reports_.begin(), reports_.end(),
                                    [this](const Report& one) { return one.step < step_; });
  return missing == reports_.end() ? rank : static_cast<int>(missing - reports_.begin());
}

bool Job::Starved() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return starved_;
}

// After a deadline: asks the rank for which the job waits, and returns what prevents that rank from
// making progress.
Status Job::AskMissing() {
  const int missing = Missing();
  if (missing != comm::Exchange::kNobody && missing != exchange_->rank()) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      Watch(missing);
    }
    std::string present;
    const Status asked =
        exchange_->Ask(missing, channel_, {}, EncodeJobMessage(kJobAsk, Status(), {}), &present);
    TakeAsked(missing, asked, present);
  }
  return Hindrance(Missing());
}

// kTimedOut if waiting for `missing` (from Missing) may be in vain: for a deadline it has not
// answered, or has made no progress with its part, or it reports this of a rank for which it waits.
Status Job::Hindrance(int missing) const {
  if (missing == comm::Exchange::kNobody) return Status();
  const int rank = exchange_->rank();
  if (missing == rank) {
    const uint64_t began_ns = work_ns_;
    if (for_program_ || NowNs() - began_ns < TimeoutNs()) return Status();
    return Overdue(missing, "gone on with its part");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!IsWatched(missing)) return Status();
  const bool asked_lately = NowNs() - asked_ns_ < 2 * TimeoutNs();
  if (asked_lately && unanswered_since_ns_.has_value() &&
      NowNs() - *unanswered_since_ns_ >= TimeoutNs()) {
    return Overdue(missing, "answered rank " + std::to_string(rank));
  }
  // If it was not asked for a long time, it may have made progress since.
  return NowNs() - answered_ns_ < 2 * TimeoutNs() ? hindrance_ : Status();
}

Status Job::Overdue(int rank, const std::string& lacking) const {
  return Status(Code::kTimedOut, "rank " + std::to_string(rank) + " has not " + lacking + " for " +
                                     std::to_string(context_->options.timeout_ms) +
                                     " ms; it may be stopped or busy elsewhere (raise timeout_ms "
                                     "if it may take so long)");
}

Status Job::Wait() {
  if (finished_) return status_;  // the exchange may be gone
  uint64_t since_ns = NowNs();
  while (!finished_) {
    QUIRE_RETURN_IF_ERROR(exchange_->CheckThread());
    if (unended_) exchange_->transport().clock().SleepNs(kRetryNs);
    EndLater();
    Pump();
    const Status status = exchange_->Await(this, what_.c_str(), [this] {
      return MayPump() || unended_ ? comm::Exchange::kNobody : Missing();
    });
    if (finished_) break;
    if (!status.ok() && status.code() != Code::kTimedOut) {
      Fail(status);
      continue;
    }
    // Await returns before its deadline if this rank's ProgressQueue has work, also work that
    // another rank's question has put there.
    if (status.ok() && NowNs() - since_ns < TimeoutNs()) continue;
    const Status hindrance = AskMissing();
    if (finished_) break;
    if (!hindrance.ok()) return hindrance.WithContext(what_);
    since_ns = NowNs();
  }
  return status_;
}

}  // namespace quire::runtime
