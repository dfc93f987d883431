#include "kv/job.h"

#include <algorithm>
#include <utility>

#include "base/coding.h"
#include "kv/agreement.h"
#include "kv/wire.h"

namespace quire::kv {
namespace {

// In the place of a step: the job has ended.
constexpr int kEnd = 1 << 20;

std::string EncodeNews(int step, const Status& status, Slice note) {
  std::string text;
  base::PutVarint(&text, static_cast<uint64_t>(step));
  return text + EncodeOutcome(status, note);
}

// Rank 0 does not serve a job that it has given up.
Status FromRank0(const Status& answered) {
  return answered.code() == Code::kNotFound ? Status(Code::kPeerFailed, "rank 0 has given it up")
                                            : answered;
}

class JobEvent final : public Event {
 public:
  explicit JobEvent(std::shared_ptr<Job> job) : job_(std::move(job)) {}
  bool Ready() override { return job_->Ready(); }
  Status Wait() override { return job_->Wait(); }
  EventProgress Progress() const override { return job_->Progress(); }

 private:
  const std::shared_ptr<Job> job_;
};

}  // namespace

std::unique_ptr<Event> NewJobEvent(std::shared_ptr<Job> job) {
  return std::make_unique<JobEvent>(std::move(job));
}

std::shared_ptr<Job> Job::Start(const std::shared_ptr<Core>& core, std::string what,
                                std::unique_ptr<JobWork> work) {
  std::shared_ptr<Job> job(new Job(core, std::move(what), std::move(work)));
  {
    const std::lock_guard<std::mutex> lock(core->mutex);
    std::erase_if(core->jobs, [](const std::shared_ptr<Job>& other) { return other->finished(); });
    core->jobs.push_back(job);
    job->channel_ = Channel(++core->last_database_number, Operation::kJob);
  }
  job->work_->Attach(job);
  job->Serve();
  job->Schedule();
  return job;
}

Job::Job(std::shared_ptr<Core> core, std::string what, std::unique_ptr<JobWork> work)
    : core_(std::move(core)),
      exchange_(core_->exchange.get()),
      what_(std::move(what)),
      work_(std::move(work)),
      reports_(static_cast<size_t>(exchange_->size())) {}

Job::~Job() {
  Stop();
}

void Job::Serve() {
  exchange_->Serve(channel_, [this](int source, Slice request, std::string* /*answer*/) {
    return OnMessage(source, request);
  });
}

void Job::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    if (!ended_) status_ = Status(Code::kInvalidArgument, what_ + " was given up unfinished");
  }
  exchange_->Serve(channel_, {});
  const std::lock_guard<std::mutex> slice_lock(slice_mutex_);
  if (!finished_.exchange(true)) work_->Finish(status_);
}

EventProgress Job::Progress() const {
  return {work_->bytes_done.load(std::memory_order_relaxed),
          work_->bytes_total.load(std::memory_order_relaxed)};
}

// ---- This rank's part ----

void Job::Schedule() {
  const std::shared_ptr<Job> self = weak_from_this().lock();
  if (self == nullptr || queued_.exchange(true)) return;
  const auto slice = [self] { self->RunSlice(); };
  int step = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    step = step_;
  }
  if (work_->sends(step)) {
    core_->errands->Run(slice);
  } else {
    core_->transfers->Schedule(slice);
  }
  exchange_->Nudge(this);
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
    step = ended_ ? kEnd : step_;
    if (!ended_ && through_) return;
    fresh = std::exchange(fresh_, false);
    if (fresh) news = std::move(news_);
  }
  if (step == kEnd) {
    work_->Finish(status_);
    finished_ = true;
    return exchange_->Nudge(this);
  }
  if (fresh) work_->TakeNews(step, news);
  const Result<JobWork::State> state = work_->Advance(step);
  if (!state.ok()) return EndStep(step, state.status());
  if (*state == JobWork::State::kThrough) return EndStep(step, Status());
  if (*state == JobWork::State::kAgain) Schedule();
}

// Reports to rank 0, where messages may be sent.
void Job::EndStep(int step, const Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    through_ = true;
  }
  Report report{true, status, status.ok() ? work_->Report(step) : std::string()};
  if (exchange_->rank() == 0) return TakeReport(0, std::move(report));
  core_->errands->Run([self = shared_from_this(), step, report = std::move(report)] {
    {
      const std::lock_guard<std::mutex> lock(self->mutex_);
      if (self->stopped_) return;
    }
    const Status sent = self->exchange_->StartThen(
        0, self->channel_, {}, EncodeNews(step, report.status, report.note),
        [self](const Status& answered, Slice) {
          if (!answered.ok()) {
            self->End(FromRank0(answered).WithContext(self->what_));
          }
        });
    if (!sent.ok()) self->End(sent.WithContext(self->what_));
  });
  exchange_->Nudge(this);
}

// ---- News ----

Status Job::OnMessage(int source, Slice message) {
  base::Reader reader(message);
  uint64_t step = 0;
  Slice note;
  if (!reader.Varint(&step) || step > static_cast<uint64_t>(kEnd)) {
    return Status(Code::kCorruption, "news of a background job cannot be read");
  }
  Report report;
  report.there = true;
  QUIRE_RETURN_IF_ERROR(DecodeOutcome(reader.rest(), &report.status, &note));
  report.note = std::string(note);
  if (exchange_->rank() == 0) {
    TakeReport(source, std::move(report));
  } else {
    Go(static_cast<int>(step), report.status, std::move(report.note));
  }
  return Status();
}

// Rank 0. No rank reports a step before all have ended the one before.
void Job::TakeReport(int source, Report report) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_ || stopped_) return;
    reports_[static_cast<size_t>(source)] = std::move(report);
    for (const Report& one : reports_) {
      if (!one.there) return exchange_->Nudge(this);
    }
  }
  const std::shared_ptr<Job> self = weak_from_this().lock();
  if (self != nullptr) core_->errands->Run([self] { self->Decide(); });
  exchange_->Nudge(this);
}

// Rank 0: all are through with a step.
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
  if (status.ok()) {
    Result<std::string> taken = work_->TakeReports(step, notes);
    status = taken.status();
    if (taken.ok()) news = std::move(*taken);
  }
  const bool last = !status.ok() || step + 1 == work_->step_count();
  TellAll(last ? kEnd : step + 1, status, news);
  Go(last ? kEnd : step + 1, status, std::move(news));
}

// Rank 0. Who cannot be told is dead, or hears of it when it waits.
void Job::TellAll(int step, const Status& status, const std::string& news) {
  const std::string message = EncodeNews(step, status, news);
  for (int rank = 1; rank < exchange_->size(); ++rank) {
    static_cast<void>(
        exchange_->StartThen(rank, channel_, {}, message, [](const Status&, Slice) {}));
  }
}

void Job::Go(int step, const Status& status, std::string news) {
  if (step == kEnd) return End(status);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return;
    step_ = step;
    news_ = std::move(news);
    fresh_ = true;
    through_ = false;
  }
  Schedule();
}

void Job::End(const Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_ || stopped_) return;
    ended_ = true;
    status_ = status;
  }
  Schedule();
}

// ---- Waiting ----

// What only this thread can do.
void Job::Pump() {
  core_->errands->RunPending();
  while (core_->transfers->RunOne()) {
  }
}

bool Job::Ready() {
  if (!finished_ && !exchange_->has_handler_thread()) {
    exchange_->Progress();
    Pump();
  }
  return finished_;
}

// The rank that is waited for; kNobody where this one has ended, or has something to do.
int Job::Missing() {
  if (finished_ || core_->errands->pending()) return comm::Exchange::kNobody;
  if (queued_ && core_->manual_background) return comm::Exchange::kNobody;
  const std::lock_guard<std::mutex> lock(mutex_);
  const int rank = exchange_->rank();
  if (ended_ || !through_) return rank;
  if (rank != 0) return 0;
  const auto missing = std::find_if(reports_.begin(), reports_.end(),
                                    [](const Report& report) { return !report.there; });
  return missing == reports_.end() ? rank : static_cast<int>(missing - reports_.begin());
}

// After a deadline: whether the rank that is waited for lives, and goes on.
bool Job::StillAlive(uint64_t* bytes_before) {
  const int missing = Missing();
  if (missing == comm::Exchange::kNobody) return true;
  if (missing == exchange_->rank()) {
    return std::exchange(*bytes_before, Progress().bytes_done) != Progress().bytes_done;
  }
  // Whatever it answers, it answers.
  const Code code = exchange_->Ask(missing, kPingChannel, {}, {}, nullptr).code();
  return code != Code::kTimedOut && code != Code::kPeerFailed;
}

Status Job::Wait() {
  uint64_t bytes_before = 0;
  while (true) {
    Pump();
    const Status status = exchange_->Await(this, what_.c_str(), [this] { return Missing(); });
    if (finished_) return status_;
    if (status.ok()) continue;
    if (status.code() == Code::kTimedOut) {
      if (StillAlive(&bytes_before)) continue;
      return status;
    }
    // Nobody else tells the others, should rank 0 hear of a death.
    if (exchange_->rank() == 0) TellAll(kEnd, status.WithContext(what_), {});
    End(status.WithContext(what_));
  }
}

}  // namespace quire::kv
