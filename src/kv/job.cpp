#include "kv/job.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/coding.h"
#include "base/log_sink.h"
#include "kv/agreement.h"
#include "kv/wire.h"

namespace quire::kv {
namespace {

// In the place of a step: the job has ended; it is being taken back; the sender asks where it is.
constexpr int kEnd = 1 << 20;
constexpr int kUndo = kEnd - 1;
constexpr int kAsk = kEnd + 1;

std::string EncodeNews(int step, const Status& status, Slice note) {
  std::string text;
  base::PutVarint(&text, static_cast<uint64_t>(step));
  return text + EncodeOutcome(status, note);
}

struct News {
  int step = 0;
  Status status;
  std::string note;
};

Status DecodeNews(Slice text, News* news) {
  base::Reader reader(text);
  uint64_t step = 0;
  Slice note;
  if (!reader.Varint(&step) || step > static_cast<uint64_t>(kAsk)) {
    return Status(Code::kCorruption, "news of a background job cannot be read");
  }
  QUIRE_RETURN_IF_ERROR(DecodeOutcome(reader.rest(), &news->status, &note));
  news->step = static_cast<int>(step);
  news->note = std::string(note);
  return Status();
}

Status NoMemory() {
  return Status(Code::kOutOfMemory, "an allocation failed");
}

// A rank does not serve a job that it has given up.
Status FromRank(int rank, const Status& answered) {
  if (answered.code() != Code::kNotFound) return answered;
  return Status(Code::kPeerFailed, "rank " + std::to_string(rank) + " has given it up");
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

// `body`, on any thread. A rank without the memory to take its part has failed.
template <typename Body>
void Job::Guarded(const Body& body) {
  try {
    body();
  } catch (const std::bad_alloc&) {
    Fail(NoMemory());
  }
}

std::shared_ptr<Job> Job::Start(const std::shared_ptr<Core>& core, std::string what,
                                std::unique_ptr<JobWork> work) {
  std::shared_ptr<Job> job(new Job(core, std::move(what), std::move(work)));
  std::vector<std::shared_ptr<Job>> settled;  // stopped now: they may outlive the exchange
  {
    const std::lock_guard<std::mutex> lock(core->mutex);
    const auto first =
        std::stable_partition(core->jobs.begin(), core->jobs.end(),
                              [](const std::shared_ptr<Job>& other) { return !other->Settled(); });
    settled.assign(first, core->jobs.end());
    core->jobs.erase(first, core->jobs.end());
    job->channel_ = Channel(++core->last_database_number, Operation::kJob);
    core->jobs.push_back(job);
  }
  for (const std::shared_ptr<Job>& other : settled) other->Stop();
  job->Guarded([&] {
    job->work_->Attach(job);
    job->Serve();
    job->Schedule();
  });
  return job;
}

Job::Job(std::shared_ptr<Core> core, std::string what, std::unique_ptr<JobWork> work)
    : core_(std::move(core)),
      exchange_(core_->exchange.get()),
      what_(std::move(what)),
      work_(std::move(work)),
      reports_(static_cast<size_t>(exchange_->size())),
      told_(EncodeNews(0, Status(), {})),
      heard_(static_cast<size_t>(exchange_->size())) {}

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
  return std::find(heard_.begin() + 1, heard_.end(), false) == heard_.end();
}

void Job::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    if (!ended_) status_ = Status(Code::kInvalidArgument, what_ + " was given up unfinished");
  }
  exchange_->Serve(channel_, {});
  const std::lock_guard<std::mutex> slice_lock(slice_mutex_);
  if (!finished_) Finish();
}

EventProgress Job::Progress() const {
  return {work_->bytes_done.load(std::memory_order_relaxed),
          work_->bytes_total.load(std::memory_order_relaxed)};
}

// ---- This rank's part ----

void Job::Schedule() {
  const std::shared_ptr<Job> self = weak_from_this().lock();
  if (self == nullptr || queued_.exchange(true)) return;
  const auto slice = [self] { self->Guarded([&] { self->RunSlice(); }); };
  int step = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    step = step_;
  }
  try {
    if (step != kUndo && work_->sends(step)) {
      core_->errands->Run(slice);
    } else {
      core_->transfers->Schedule(slice);
    }
  } catch (const std::bad_alloc&) {
    queued_ = false;
    throw;
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
    Finish();
    return exchange_->Nudge(this);
  }
  std::string note;
  const Result<JobWork::State> state = CallWork(step, fresh ? &news : nullptr, &note);
  if (!state.ok()) return EndStep(step, {true, state.status(), {}});
  if (*state == JobWork::State::kThrough) return EndStep(step, {true, Status(), std::move(note)});
  if (*state == JobWork::State::kAgain) Schedule();
}

// What the work could not do for want of memory it has failed to do.
Result<JobWork::State> Job::CallWork(int step, const std::string* news, std::string* note) {
  try {
    if (step == kUndo) {
      work_->Undo();
      return JobWork::State::kThrough;
    }
    if (news != nullptr) work_->TakeNews(step, *news);
    QUIRE_ASSIGN_OR_RETURN(const JobWork::State state, work_->Advance(step));
    if (state == JobWork::State::kThrough) *note = work_->Report(step);
    return state;
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
}

// Whatever becomes of that: who waits is not to wait for ever.
void Job::Finish() {
  try {
    work_->Finish(status_);
  } catch (const std::bad_alloc&) {
    base::Log(LogLevel::kError, "no memory to end a job in the background");
  }
  finished_ = true;
}

// Reports to rank 0, where messages may be sent.
void Job::EndStep(int step, Report report) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    through_ = true;
  }
  if (exchange_->rank() == 0) return TakeReport(0, std::move(report));
  core_->errands->Run([self = shared_from_this(), step, report = std::move(report)] {
    self->Guarded([&] { self->SendReport(step, report); });
  });
  exchange_->Nudge(this);
}

void Job::SendReport(int step, const Report& report) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_) return;
  }
  const auto answered = [self = shared_from_this()](const Status& status, Slice) {
    if (!status.ok()) self->End(FromRank(0, status).WithContext(self->what_));
  };
  const Status sent =
      exchange_->StartThen(0, channel_, {}, EncodeNews(step, report.status, report.note), answered);
  if (!sent.ok()) End(sent.WithContext(what_));
}

// ---- News ----

Status Job::OnMessage(int source, Slice message, std::string* answer) {
  News news;
  QUIRE_RETURN_IF_ERROR(DecodeNews(message, &news));
  if (news.step == kAsk) {
    *answer = Present();
    if (exchange_->rank() == 0) SetHeard(source);
    return Status();
  }
  Guarded([&] {
    if (exchange_->rank() == 0) {
      TakeReport(source, {true, news.status, std::move(news.note)});
    } else {
      Go(news.step, news.status, std::move(news.note));
    }
  });
  return Status();
}

// Where the job is on this rank. Rank 0: what it told all.
std::string Job::Present() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (exchange_->rank() == 0) return told_;
  return EncodeNews(ended_ ? kEnd : step_, status_, {});
}

// What the rank that is waited for says of itself.
void Job::TakePresent(int source, Slice text) {
  News news;
  const Status read = DecodeNews(text, &news);
  if (!read.ok()) return Fail(read);
  if (exchange_->rank() != 0) return Go(news.step, news.status, std::move(news.note));
  if (news.step == kEnd) {
    // By itself: it could not report. It is through with this step and all others.
    const Status why =
        news.status.ok() ? Status(Code::kPeerFailed, "it ended before the others") : news.status;
    return TakeReport(source, {true, why, {}});
  }
  bool behind = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    behind = news.step < step_;
  }
  if (behind) Tell(source);
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
  if (self != nullptr) core_->errands->Run([self] { self->Guarded([&] { self->Decide(); }); });
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
  status = Judge(step, std::move(status), notes, &news);
  const bool last = !status.ok() || step + 1 == work_->step_count();
  if (status.ok() || step == kUndo || !work_->CanUndo(step)) {
    return Proceed(last ? kEnd : step + 1, status, std::move(news));
  }
  undone_for_ = status;
  Proceed(kUndo, Status(), {});
}

// What becomes of a step that all are through with.
Status Job::Judge(int step, Status status, const std::vector<std::string>& notes,
                  std::string* news) {
  if (step == kUndo) return undone_for_;
  if (!status.ok()) return status;
  QUIRE_ASSIGN_OR_RETURN(*news, work_->TakeReports(step, notes));
  return Status();
}

void Job::Proceed(int step, const Status& status, std::string news) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (told_end_) return;  // a death was heard of meanwhile
    told_ = EncodeNews(step, status, news);
    told_end_ = step == kEnd;
  }
  for (int rank = 1; rank < exchange_->size(); ++rank) Tell(rank);
  Go(step, status, std::move(news));
}

// Rank 0. Who cannot be told is dead, or asks.
void Job::Tell(int rank) {
  std::string message;
  bool last = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    message = told_;
    last = told_end_;
  }
  const auto answered = [self = shared_from_this(), rank, last](const Status& status, Slice) {
    // It is dead, or has given the job up: all the same to this one.
    const bool gone = status.code() == Code::kPeerFailed || status.code() == Code::kNotFound;
    if (last && (status.ok() || gone)) self->SetHeard(rank);
  };
  const Status sent = exchange_->StartThen(rank, channel_, {}, message, answered);
  if (last && sent.code() == Code::kPeerFailed) SetHeard(rank);
}

// Rank 0: of the end, if there is one.
void Job::SetHeard(int rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (told_end_) heard_[static_cast<size_t>(rank)] = true;
}

void Job::Go(int step, const Status& status, std::string news) {
  if (step == kEnd) return End(status);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_ || step <= step_) return;  // heard already
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

// Somebody is missing for good. Nobody else tells the others, should rank 0 hear of it.
void Job::Fail(const Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_ || stopped_) return;
  }
  const Status why = status.WithContext(what_);
  if (exchange_->rank() == 0) return Proceed(kEnd, why, {});
  End(why);
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
  if (!finished_) LookForDeath();
  return finished_;
}

// For those that never wait.
void Job::LookForDeath() {
  const int missing = Missing();
  if (missing == comm::Exchange::kNobody || missing == exchange_->rank()) return;
  const Status lives = exchange_->PeerStatus(missing);
  if (lives.ok()) return;
  // Telling others may have to wait for room.
  core_->errands->Run([self = shared_from_this(), lives] { self->Fail(lives); });
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
  std::string present;
  const Status asked =
      exchange_->Ask(missing, channel_, {}, EncodeNews(kAsk, Status(), {}), &present);
  if (asked.code() == Code::kTimedOut) return false;
  if (asked.ok()) {
    TakePresent(missing, present);
  } else {
    Fail(FromRank(missing, asked));
  }
  return true;
}

Status Job::Wait() {
  uint64_t bytes_before = 0;
  while (!finished_) {  // then the exchange may be gone
    Pump();
    const Status status = exchange_->Await(this, what_.c_str(), [this] { return Missing(); });
    if (finished_ || status.ok()) continue;
    if (status.code() == Code::kTimedOut) {
      if (StillAlive(&bytes_before)) continue;
      return status;
    }
    Fail(status);
  }
  return status_;
}

}  // namespace quire::kv
