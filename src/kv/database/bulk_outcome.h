/// The outcome of a call of many operations: the first failure, with the count of failures.
///
/// Layer      kv
/// Threads    one thread
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "quire/status.h"

namespace quire::kv {

class BulkOutcome {
 public:
  /// `count`: the number of operations of the call.
  explicit BulkOutcome(size_t count) : count_(count) {}

  /// Adds the outcome of one operation.
  void Add(const Status& status) {
    if (!status.ok()) AddFailures(1, status);
  }
  void AddFailures(uint64_t failed_count, const Status& why) {
    if (failed_count == 0) return;
    if (failed_count_ == 0) first_ = why;
    failed_count_ += failed_count;
  }
  /// Returns the result of the call: OK if no operation failed.
  Status Take() const {
    if (failed_count_ == 0) return Status();
    const Code code = first_.code();
    const bool unknown = code == Code::kIo || code == Code::kTimedOut || code == Code::kPeerFailed;
    return first_.WithContext(std::to_string(failed_count_) + " of " + std::to_string(count_) +
                              " operations failed" +
                              (unknown ? " or have an unknown outcome" : "") + "; the first");
  }

 private:
  const size_t count_;
  uint64_t failed_count_ = 0;
  Status first_;
};

}  // namespace quire::kv
