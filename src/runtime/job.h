/// A collective piece of work in the background: a checkpoint, a restart, a destruction, a
/// redistribution. It has steps; a step begins when all ranks have finished the previous one, and
/// the first failure of any rank ends the job on all ranks.
///
/// Rank 0 coordinates: every rank reports the end of a step to it, and it sends every rank the next
/// step, or the job's end. No rank polls. But a rank that has waited for a long time, or that only
/// checks from time to time, requests the state of the job from the rank for which it waits, and so
/// receives news that was lost.
///
/// Only rank 0 knows that a rank does not answer or makes no progress. It reports this to ranks
/// that request the state, so that their waits end by their deadlines, like its own.
///
/// If a failed job can have no result, all ranks undo their work before it ends.
///
/// Layer      runtime
/// Source     PapyrusKV, SC17, section 4.2 (asynchronous checkpoint: an event to wait for)
/// Encoding   docs/format/message-kv.md
/// Threads    any; Advance, TakeReports and Finish of one job run one at a time
/// Invariants all ranks that receive the end receive the same one; nothing of a job runs after
///            Stop; work that runs out of memory has failed (if there is no memory to report this,
///            the process ends)
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "quire/database.h"
#include "runtime/context_state.h"

namespace quire::runtime {

class Job;

/// The work of a job on this rank.
class JobWork {
 public:
  enum class State {
    kAgain,       ///< call Advance again; other background work may come in between
    kWaiting,     ///< Job::Resume will be called
    kForProgram,  ///< like kWaiting, but for a call of the program, which may take any time
    kThrough,     ///< the step is finished on this rank
  };
  virtual ~JobWork() = default;
  virtual int step_count() const = 0;
  /// Returns whether Advance sends messages in this step.
  virtual bool sends(int /*step*/) const { return false; }
  /// Does a small part of a step (about 10 ms).
  virtual Result<State> Advance(int step) = 0;
  /// Returns this rank's report of its step to rank 0.
  virtual std::string Report(int /*step*/) { return {}; }
  /// Called on rank 0 with every rank's report, when all ranks have finished the step. Its result
  /// is sent to all ranks with the next step; a failure ends the job.
  virtual Result<std::string> TakeReports(int /*step*/,
                                          const std::vector<std::string>& /*reports*/) {
    return std::string();
  }
  /// Called on every rank before each step except the first, with the result of rank 0's
  /// TakeReports.
  virtual void TakeDecision(int /*step*/, const std::string& /*news*/) {}
  /// Called on rank 0 after the job failed in this step: returns whether the job can no longer have
  /// a lasting result.
  virtual bool CanUndo(int /*step*/) { return false; }
  /// Called then, on every rank whose job has not ended: undoes its work.
  virtual void Undo() {}
  /// On rank 0, between two calls of Advance, and on a rank that ends by itself: what the program
  /// hears of a failure that is not taken back. OK if the job has done what it is for all the same.
  virtual Status AfterFailure(const Status& why) const { return why; }
  /// Once, on every rank: how it ended.
  virtual void Finish(const Status& /*status*/) {}
  /// Before anything else: whose work it is.
  virtual void Attach(const std::weak_ptr<Job>& /*job*/) {}

  std::atomic<uint64_t> bytes_done{0};
  std::atomic<uint64_t> bytes_total{0};
};

class Job : public std::enable_shared_from_this<Job> {
 public:
  /// Collective, but does not wait. `number`: of ContextState::TakeNumber, which the caller takes
  /// before anything can fail on this rank alone. `what` is for errors: "the checkpoint of
  /// particles".
  static std::shared_ptr<Job> Start(const std::shared_ptr<ContextState>& context, uint32_t number,
                                    std::string what, std::unique_ptr<JobWork> work);
  /// Starts a job on all ranks or on none: if one rank cannot create its job, no rank has one. Call
  /// it within Together(). Returns the job's public face; `*job`, if asked for, is it.
  static Result<std::unique_ptr<Event>> StartTogether(const std::shared_ptr<ContextState>& context,
                                                      uint32_t number, std::string what,
                                                      std::unique_ptr<JobWork> work,
                                                      std::shared_ptr<Job>* job = nullptr);
  ~Job();

  bool finished() const { return finished_; }
  /// Returns whether it has finished, and no other rank depends on this one to learn of it.
  bool Settled() const;
  /// Returns whether it has ended, and Finish was called. Makes progress if there is no thread for
  /// it. If it is called again and again, it becomes true as soon as a wait would end. It does not
  /// wait for that; but it may wait for room to send.
  bool Ready();
  /// Waits for the end. kTimedOut: for the length of a deadline a rank, which the text names, has
  /// not answered or made no progress (kForProgram does not count). Detecting this takes up to four
  /// deadlines. The job continues, and Wait may be called again.
  Status Wait();
  /// Returns whether the job waits for this rank: for a slice that runs, or has no thread yet.
  bool AwaitsThisRank() { return !finished_ && Missing() == exchange_->rank(); }
  EventProgress Progress() const;
  /// Continues work that returned kWaiting or kForProgram. Any thread may call it, even one that
  /// must not send. If there is no memory, the job ends.
  void Resume();
  /// Ends the job on this rank, unfinished: none of it runs when this returns, and other ranks may
  /// wait for it in vain.
  void Stop();

 private:
  struct Report {
    int step = -1;  // the step that has ended; kJobEnd: all have ended
    Status status;
    std::string note;
  };
  Job(std::shared_ptr<ContextState> context, std::string what, std::unique_ptr<JobWork> work);
  static std::shared_ptr<Job> Prepare(const std::shared_ptr<ContextState>& context, uint32_t number,
                                      std::string what, std::unique_ptr<JobWork> work);
  void Serve();
  void Schedule();
  template <typename Part>
  void Guarded(const Part& part);
  void EndWithoutMemory() noexcept;
  template <typename Part>
  void OrLater(const Part& part) noexcept;
  void EndStarved();
  void EndLater() noexcept;
  void ReportShortage();
  Status AnnouncedStatus() const;
  void RunSlice();
  Result<JobWork::State> CallWork(int step, const std::string* news, std::string* note);
  void Finish();
  void EndStep(Report report);
  void SendReport(const Report& report);
  void NotReported(int step, const Status& why);
  Status OnMessage(int source, Slice message, std::string* answer);
  std::string Present() const;
  void TakePresent(int source, Slice text);
  void TakeReport(int source, Report report);
  void Decide();
  Status Conclude(int step, Status status, const std::vector<std::string>& notes,
                  std::string* news);
  Status AfterFailure(const Status& why) const;
  void EnterNext(int step, const Status& status, std::string news);
  void Announce(int rank, bool again = true);
  Status SendState(int rank, bool again);
  void AnnounceAgain(int rank);
  void SetAcknowledged(int rank);
  void EnterStep(int step, const Status& status, std::string news);
  void End(const Status& status);
  void Fail(const Status& status);
  void Pump();
  bool MayPump() const;
  int Missing() const;
  bool Starved() const;
  bool IsOver() const;
  void LookAfterMissing();
  void LookForMissing();
  bool MayAsk(int missing);
  bool IsWatched(int missing) const;
  void Watch(int missing);
  void StartAsking(int missing);
  bool IsUnheard(int missing, const Status& asked) const;
  void TakeAsked(int missing, const Status& asked, Slice present);
  void TakeAnswer(int rank, Status hindrance);
  Status AskMissing();
  Status Hindrance(int missing) const;
  Status Overdue(int rank, const std::string& lacking) const;
  uint64_t NowNs() const;
  uint64_t TimeoutNs() const;

  const std::shared_ptr<ContextState> context_;
  comm::Exchange* const exchange_;
  const std::string what_;
  const std::unique_ptr<JobWork> work_;
  uint32_t channel_ = 0;

  std::mutex slice_mutex_;  // held while the work is called
  std::atomic<bool> queued_{false};
  std::atomic<bool> finished_{false};
  std::atomic<bool> for_program_{false};  // the work returned kForProgram last
  std::atomic<bool> unended_{false};      // EndWithoutMemory itself found no memory
  std::atomic<uint64_t> work_ns_;  // since then something is to be done here, or is being done

  mutable std::mutex mutex_;
  int step_ = 0;          // below: guarded by mutex_
  bool through_ = false;  // this rank with step_
  bool starved_ = false;  // it had no memory to report that
  bool fresh_ = false;    // the work does not know news_ yet
  std::string news_;
  bool ended_ = false;
  bool stopped_ = true;          // until the context has it: before that nothing runs
  Status status_;                // once ended_
  std::vector<Report> reports_;  // rank 0: of step_
  std::string announced_;        // rank 0: the news that all get, encoded
  bool announced_end_ = false;   // rank 0: they are the last
  Status announced_status_;      // rank 0: which the last have
  std::vector<bool> acknowledged_;  // rank 0: the ranks that have received the end, or cannot
  Status undone_for_;            // rank 0: why it is being undone
  uint64_t step_ns_;             // when step_ began
  int watched_rank_ = -1;        // that was asked last
  int watched_step_ = -1;        // in this step
  uint64_t asked_ns_ = 0;        // then
  std::optional<uint64_t> unanswered_since_ns_;  // it has answered no question since then
  uint64_t answered_ns_ = 0;                     // when it answered last
  Status hindrance_;                    // that this answer spoke of
};

template <typename Part>
void Job::Guarded(const Part& part) {
  try {
    part();
  } catch (const std::bad_alloc&) {
    EndWithoutMemory();
  }
}

}  // namespace quire::runtime
