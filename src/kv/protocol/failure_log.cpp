#include "kv/protocol/failure_log.h"

#include <string>
#include <utility>

namespace quire::kv {
namespace {

std::string Operations(uint64_t count) {
  return std::to_string(count) + (count == 1 ? " operation" : " operations");
}

}  // namespace

void FailureLog::Add(int owner, uint64_t* counter, uint64_t count, const Status& why) {
  if (count == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  *counter += count;
  if (!first_.ok()) return;
  first_ = why;
  first_owner_ = owner;
}

void FailureLog::AddLost(int owner, uint64_t count, const Status& why) {
  Add(owner, &lost_count_, count, why);
}

void FailureLog::AddUnknown(int owner, uint64_t count, const Status& why) {
  Add(owner, &unknown_count_, count, why);
}

Status FailureLog::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (first_.ok()) return Status();
  std::string text;
  if (lost_count_ > 0) text = Operations(lost_count_) + " lost";
  if (unknown_count_ > 0) {
    text += (text.empty() ? "" : ", ") + Operations(unknown_count_) + " with unknown outcome";
  }
  text += "; first, at rank " + std::to_string(first_owner_) + ": " + first_.ToString();
  const Status failure(first_.code(), std::move(text));
  lost_count_ = unknown_count_ = 0;
  first_ = Status();
  return failure;
}

bool FailureLog::empty() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return first_.ok();
}

}  // namespace quire::kv
