/// Warnings of which others decide how many there are: a few in a minute are logged, the rest are
/// counted, so that strangers cannot fill the log, nor push out of it what its owner has to read.
///
/// Layer      tools
/// Threads    any
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace quire::streamd {

class RareLog {
 public:
  static constexpr uint64_t kLinesMax = 5;  ///< in each window
  static constexpr uint64_t kWindowNs = 60'000'000'000;

  /// `what`: of what there were more, as "refused connections".
  explicit RareLog(std::string what) : what_(std::move(what)) {}
  void Warn(const std::string& text, uint64_t now_ns);
  /// Logs how many warnings were left out, once their window is over. Cheap; called now and then.
  void Tell(uint64_t now_ns);

 private:
  const std::string what_;
  std::mutex mutex_;
  uint64_t begin_ns_ = 0;  ///< of the window
  uint64_t lines_ = 0;     // in it
};

}  // namespace quire::streamd
