#include "lsm/jobs/write_health.h"

#include <new>
#include <utility>

#include "base/core/log_sink.h"
#include "base/core/out_of_memory.h"
#include "lsm/version/version_set.h"

namespace quire::lsm {

void WriteHealth::FailLocked(const Status& status, const char* what) noexcept {
  Status failure = status;  // at least this, if there is no memory to describe it
  static_cast<void>(base::OrOutOfMemory([&] {
    const Status described = status.WithContext(std::string(what) + " in " + directory_);
    failure = described;
    const bool told = IsShortage(status) && std::exchange(shortage_logged_, true);
    if (!told && base::LogEnabled()) base::Log(LogLevel::kError, described.ToString());
    return described;
  }));
  if (IsShortage(status)) {
    shortage_ = failure;
  } else if (failure_.ok()) {
    failure_ = failure;
    refused_.store(true, std::memory_order_relaxed);
  }
  changed_.notify_all();
}

void WriteHealth::Fail(const Status& status, const char* what) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  FailLocked(status, what);
}

Status WriteHealth::WriteStatus() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return WriteStatusLocked();
}

Status WriteHealth::WriteStatusLocked() const {
  if (failure_.ok()) return Status();
  return Status(Code::kReadOnly,
                "the database takes no writes since a failure in the background (" +
                    failure_.ToString() + "); reopen it when the cause is gone");
}

void WriteHealth::LogFailure(const Status& status) const noexcept {
  if (status.ok() || !base::LogEnabled()) return;
  try {
    base::Log(LogLevel::kWarning, status.WithContext(directory_).ToString());
  } catch (const std::bad_alloc&) {
    base::Log(LogLevel::kWarning, "a failure in the background; no memory to describe it");
  }
}

}  // namespace quire::lsm
