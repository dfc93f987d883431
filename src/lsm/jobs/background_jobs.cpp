#include "lsm/jobs/background_jobs.h"

#include <new>
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/threads/epoch.h"

namespace quire::lsm {

void BackgroundJobs::ScheduleDueLocked() {
  if (!MayWorkLocked()) return;
  for (Job& job : kinds_) {
    if (!job.queued && job.kind.due()) ScheduleLocked(job);
  }
}

void BackgroundJobs::ScheduleLocked(Job& job) {
  try {
    auto run = [this, &job] { Run(job); };
    if (job.kind.may_take_long) {
      executor_.ScheduleLong(std::move(run));
    } else {
      executor_.Schedule(std::move(run));
    }
    job.queued = true;
    ++job_count_;
  } catch (const std::bad_alloc&) {
    health_.FailLocked(base::OutOfMemory(), "scheduling background work");
  }
}

void BackgroundJobs::Run(Job& job) {
  const Status status = base::OrOutOfMemory([&] {
    job.kind.run();
    return Status();
  });
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!status.ok()) health_.FailLocked(status, "background work");
  job.queued = false;
  const Status next = base::OrOutOfMemory([this] {
    ScheduleDueLocked();
    return Status();
  });
  if (!next.ok()) health_.FailLocked(next, "background work");
  --job_count_;
  changed_.notify_all();
}

bool BackgroundJobs::RunOneUnlocked(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const bool ran = executor_.RunOne();
  base::EpochCollect();
  lock.lock();
  return ran;
}

Status BackgroundJobs::WaitLocked(std::unique_lock<std::mutex>& lock,
                                  const std::function<bool()>& done) {
  const auto over = [&] { return done() || !health_.failure().ok() || !health_.shortage().ok(); };
  while (!over()) {
    if (RunOneUnlocked(lock) || over()) continue;
    changed_.wait(lock);
  }
  if (done()) return Status();
  QUIRE_RETURN_IF_ERROR(health_.WriteStatusLocked());
  return health_.shortage();
}

void BackgroundJobs::Close() {
  std::unique_lock<std::mutex> lock(mutex_);
  closing_ = true;
  while (!idle()) {
    if (!RunOneUnlocked(lock) && !idle()) changed_.wait(lock);
  }
}

}  // namespace quire::lsm
