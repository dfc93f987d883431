#include "runtime/job.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/forked_child.h"
#include "base/log_sink.h"
#include "base/out_of_memory.h"
#include "base/units.h"
#include "runtime/job_message.h"

namespace quire::runtime {
namespace {

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
  std::vector<std::shared_ptr<Job>> settled;  // stopped now: they may outlive the exchange
  {
    const std::lock_guard<std::mutex> lock(context->mutex);
    const auto first =
        std::stable_partition(context->jobs.begin(), context->jobs.end(),
                              [](const std::shared_ptr<Job>& other) { return !other->Settled(); });
    settled.assign(first, context->jobs.end());
    context->jobs.erase(first, context->jobs.end());
    context->jobs.push_back(job);
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
  for_program_ = false;  // after that: until then it may rest
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

// What cannot be told for want of memory ends the job: the little that this takes may be there.
void Job::EndWithoutMemory() {
  context_->progress_queue->Run([self = shared_from_this()] {
    if (self->exchange_->rank() == 0) {
      self->Fail(base::OutOfMemory());
      self->End(self->AnnouncedStatus());  // where others were told of an end already
    } else {
      self->ReportShortage();
    }
    self->Schedule();  // where it had ended already
  });
}

// Not rank 0. It may have done what the job is for meanwhile: how the job ends is for it to say.
void Job::ReportShortage() {
  Report report{0, base::OutOfMemory(), {}};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_ || stopped_) return;
    through_ = true;
    starved_ = true;
    report.step = step_;
  }
  // If there is no memory again, rank 0 asks.
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

// Work that runs out of memory has failed.
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

// Regardless of the result: no waiting thread may wait forever.
void Job::Finish() {
  try {
    work_->Finish(status_);
  } catch (const std::bad_alloc&) {
    base::Log(LogLevel::kError, "no memory to end a job in the background");
  }
  finished_ = true;
}

// Reports to rank 0, where messages may be sent.
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

// If rank 0 or this one had no memory for it, rank 0 asks, after a deadline.
void Job::NotReported(int step, const Status& why) {
  if (why.code() != Code::kOutOfMemory) return End(AfterFailure(why.WithContext(what_)));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (step == step_) starved_ = true;
}

// ---- Waiting ----

// What only this thread can do.
void Job::Pump() {
  context_->progress_queue->RunPending();
  while (context_->blocking_executor->RunOne()) {
  }
}

bool Job::Ready() {
  if (!finished_ && !exchange_->has_handler_thread()) {
    if (!exchange_->CheckThread().ok()) return finished_;  // what waits is left to those who may
    exchange_->Progress();
    Pump();
  }
  if (!finished_) LookAfterMissing();
  return finished_;
}

// The exchange may be gone.
bool Job::IsOver() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ended_ || stopped_;
}

// For those that never wait: whether the rank that is missing lives, and after a deadline where it
// is. What finds no memory is done by a later look.
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
  // To send may have to wait for room.
  if (!lives.ok()) {
    context_->progress_queue->Run([self = shared_from_this(), lives] { self->Fail(lives); });
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

// Once for each deadline that a rank has been missing for.
bool Job::MayAsk(int missing) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t since_ns = IsWatched(missing) ? asked_ns_ : step_ns_;
  if (NowNs() - since_ns < TimeoutNs()) return false;
  Watch(missing);
  return true;
}

// Below: with mutex_.
bool Job::IsWatched(int missing) const {
  return watched_rank_ == missing && watched_step_ == step_;
}

// It is asked now.
void Job::Watch(int missing) {
  if (!IsWatched(missing)) {
    watched_rank_ = missing;
    watched_step_ = step_;
    unheard_ns_.reset();
    hindrance_ = Status();
  }
  const uint64_t now_ns = NowNs();
  // If nobody has asked for long, it is not known whether it would have answered.
  if (now_ns - asked_ns_ >= 2 * TimeoutNs()) unheard_ns_.reset();
  asked_ns_ = now_ns;
  if (!unheard_ns_.has_value()) unheard_ns_ = asked_ns_;
}

void Job::StartAsking(int missing) {
  if (IsOver()) return;
  // What comes of the answer may have to be sent, which the callback must not do.
  const auto answered = [self = shared_from_this(), missing](const comm::Outcome& outcome) {
    self->context_->progress_queue->Run(
        [self, missing, asked = outcome.status, text = std::string(outcome.answer)] {
          self->Guarded([&] { self->TakeAsked(missing, asked, text); });
        });  // without memory for that: it asks again
  };
  const Status sent = base::OrOutOfMemory([&] {
    return exchange_->StartThen(missing, channel_, {}, EncodeJobMessage(kJobAsk, Status(), {}),
                                answered);
  });
  // Without memory or room, it is asked again after the next deadline.
  if (sent.ok() || sent.code() == Code::kTimedOut || sent.code() == Code::kOutOfMemory) return;
  Guarded([&] { TakeAsked(missing, sent, {}); });
}

// What it said counts for the step in which it was asked.
void Job::TakeAnswer(int rank, Status hindrance) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!IsWatched(rank)) return;
  unheard_ns_.reset();
  heard_ns_ = NowNs();
  hindrance_ = std::move(hindrance);
}

// Whether the question was lost, or its answer, and neither says anything of the rank.
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

// Whether the thread that waits has something to do itself.
bool Job::MayPump() const {
  return context_->progress_queue->pending() || (queued_ && context_->manual_background);
}

// The rank that is waited for; kNobody where this one has ended.
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

// After a deadline: asks the rank that is waited for, and returns what keeps it from going on.
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

// kTimedOut if `missing`, of Missing, may be waited for in vain: for a deadline it has not
// answered, or its part has not gone on, or it says so of a rank that it waits for.
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
  if (asked_lately && unheard_ns_.has_value() && NowNs() - *unheard_ns_ >= TimeoutNs()) {
    return Overdue(missing, "answered rank " + std::to_string(rank));
  }
  // It may have gone on since, if nobody has asked for long.
  return NowNs() - heard_ns_ < 2 * TimeoutNs() ? hindrance_ : Status();
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
    Pump();
    const Status status = exchange_->Await(this, what_.c_str(), [this] {
      return MayPump() ? comm::Exchange::kNobody : Missing();
    });
    if (finished_) break;
    if (!status.ok() && status.code() != Code::kTimedOut) {
      Fail(status);
      continue;
    }
    // ProgressQueue of this rank, also for those that ask it, end Await before its deadline.
    if (status.ok() && NowNs() - since_ns < TimeoutNs()) continue;
    const Status hindrance = AskMissing();
    if (finished_) break;
    if (!hindrance.ok()) return hindrance.WithContext(what_);
    since_ns = NowNs();
  }
  return status_;
}

}  // namespace quire::runtime
