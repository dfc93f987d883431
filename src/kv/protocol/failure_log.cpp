#include "kv/protocol/failure_log.h"

#include <string>
#include <utility>

namespace quire::kv {
namespace {

std::string Operations(uint64_t count) {
  return std::to_string(count) + (count == 1 ? " operation" : " operations");
}

}  // namespace

Status WriteFailures::ToStatus() const {
  if (first.ok()) return Status();
  std::string text;
  if (lost_count > 0) text = Operations(lost_count) + " lost";
  if (unknown_count > 0) {
    text += (text.empty() ? "" : ", ") + Operations(unknown_count) + " with unknown outcome";
  }
  text += "; first, at rank " + std::to_string(first_owner) + ": " + first.ToString();
  return Status(first.code(), std::move(text));
}

void FailureLog::Add(int owner, uint64_t WriteFailures::*counter, uint64_t count,
                     const Status& why) {
  if (count == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  failures_.*counter += count;
  if (!failures_.first.ok()) return;
  failures_.first = why;
  failures_.first_owner = owner;
}

void FailureLog::AddLost(int owner, uint64_t count, const Status& why) {
  Add(owner, &WriteFailures::lost_count, count, why);
}

void FailureLog::AddUnknown(int owner, uint64_t count, const Status& why) {
  Add(owner, &WriteFailures::unknown_count, count, why);
}

WriteFailures FailureLog::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(failures_, WriteFailures());
}

void FailureLog::PutBack(WriteFailures untold) {
  if (untold.first.ok()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  untold.lost_count += failures_.lost_count;
  untold.unknown_count += failures_.unknown_count;
  failures_ = std::move(untold);
}

bool FailureLog::empty() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failures_.first.ok();
}

}  // namespace quire::kv
