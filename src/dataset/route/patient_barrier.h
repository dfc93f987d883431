/// A barrier without a deadline for the program: each rank waits until every other rank has arrived
/// or died, or does not answer.
///
/// Layer      dataset
/// Threads    the program's, all ranks alike
#pragma once

#include <memory>

#include "quire/status.h"
#include "runtime/context_state.h"
#include "runtime/job.h"

namespace quire::dataset {

class PatientBarrier {
 public:
  /// Begins the barrier: from now on other ranks wait for this one. Collective, but does not wait.
  /// `number`: from ContextState::TakeNumber, taken before anything can fail on this rank alone.
  /// `what` is for errors.
  PatientBarrier(const std::shared_ptr<runtime::ContextState>& context, uint32_t number,
                 const char* what);
  /// Destroying it before Arrive() counts as a failure of this rank.
  ~PatientBarrier();
  PatientBarrier(const PatientBarrier&) = delete;
  PatientBarrier& operator=(const PatientBarrier&) = delete;

  /// Waits for all ranks; called once. Returns OK if every rank arrived with OK, as far as this
  /// rank knows; kTimedOut if a rank does not answer. Meanwhile sends messages that are waiting for
  /// calls.
  Status Arrive(const Status& mine);

 private:
  class Work;
  Work* work_;  ///< the job's
  std::shared_ptr<runtime::Job> job_;
};

}  // namespace quire::dataset
