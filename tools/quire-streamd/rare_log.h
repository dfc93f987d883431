/// Warnings whose number other programs determine: a few per minute are logged, the rest are
/// counted, so that strangers cannot fill the log or push out lines that its owner must read.
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

  /// `what`: the name of the counted events, such as "refused connections".
  explicit RareLog(std::string what) : what_(std::move(what)) {}
  void Warn(const std::string& text, uint64_t now_ns);
  /// Logs the number of suppressed warnings once their window is over. Cheap; called from time to
  /// time.
  void Tell(uint64_t now_ns);

 private:
  const std::string what_;
  std::mutex mutex_;
  uint64_t begin_ns_ = 0;  ///< of the window
  uint64_t lines_ = 0;     // in it
};

}  // namespace quire::streamd
