/// A place to which all ranks come, each in its own time: who is there waits for the others,
/// however long they take, as long as they live.
///
/// Layer      partition
/// Threads    the program's, all ranks alike
#pragma once

#include <memory>

#include "quire/status.h"
#include "runtime/core.h"
#include "runtime/job.h"

namespace quire::partition {

class Arrival {
 public:
  /// Collective; waits for nobody. From now on this rank is waited for. `number`: of
  /// Core::TakeNumber, taken before anything can fail on this rank alone. `what` is for errors.
  Arrival(const std::shared_ptr<runtime::Core>& core, uint32_t number, const char* what);
  /// Who has not come has failed.
  ~Arrival();
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  /// Once. OK where every rank came with OK, as far as is heard here. What waits to be sent in
  /// calls is sent meanwhile.
  Status Come(const Status& mine);

 private:
  class Work;
  Work* work_;  ///< the job's
  std::shared_ptr<runtime::Job> job_;
};

}  // namespace quire::partition
