#include "dataset/route/patient_barrier.h"

#include <mutex>
#include <optional>
#include <utility>

#include "base/core/out_of_memory.h"

namespace quire::dataset {

class PatientBarrier::Work final : public runtime::JobWork {
 public:
  int step_count() const override { return 1; }
  Result<State> Advance(int /*step*/) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!mine_.has_value()) return State::kForProgram;
    QUIRE_RETURN_IF_ERROR(*mine_);
    return State::kThrough;
  }
  // Returns true for the first arrival.
  bool Arrive(const Status& mine) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (mine_.has_value()) return false;
    mine_ = mine;
    return true;
  }

 private:
  std::mutex mutex_;
  std::optional<Status> mine_;
};

PatientBarrier::PatientBarrier(const std::shared_ptr<runtime::ContextState>& context,
                               uint32_t number, const char* what) {
  auto work = std::make_unique<Work>();
  work_ = work.get();
  job_ = runtime::Job::Start(context, number, what, std::move(work));
}

PatientBarrier::~PatientBarrier() {
  if (work_->Arrive(base::OutOfMemory())) job_->Resume();
}

Status PatientBarrier::Arrive(const Status& mine) {
  if (work_->Arrive(mine)) job_->Resume();
  return job_->Wait();
}

}  // namespace quire::dataset
