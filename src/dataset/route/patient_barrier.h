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
  /// Collective, but does not wait. From now on this rank is waited for. `number`: of
  /// ContextState::TakeNumber, taken before anything can fail on this rank alone. `what` is for
  /// errors.
  PatientBarrier(const std::shared_ptr<runtime::ContextState>& context, uint32_t number,
                 const char* what);
  /// Destroying it before Arrive() counts as a failure of this rank.
  ~PatientBarrier();
  PatientBarrier(const PatientBarrier&) = delete;
  PatientBarrier& operator=(const PatientBarrier&) = delete;

  /// Once. Returns OK if every rank came with OK, as far as this rank knows; kTimedOut if a rank
  /// does not answer. Messages that are sent in calls are sent meanwhile.
  Status Arrive(const Status& mine);

 private:
  class Work;
  Work* work_;  ///< the job's
  std::shared_ptr<runtime::Job> job_;
};

}  // namespace quire::dataset
