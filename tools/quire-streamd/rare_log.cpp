#include "tools/quire-streamd/rare_log.h"

#include "base/core/log_sink.h"

namespace quire::streamd {

void RareLog::Warn(const std::string& text, uint64_t now_ns) {
  Tell(now_ns);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (lines_++ == 0) begin_ns_ = now_ns;
  if (lines_ <= kLinesMax) base::Log(LogLevel::kWarning, text);
}

void RareLog::Tell(uint64_t now_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (lines_ == 0 || now_ns < begin_ns_ + kWindowNs) return;
  if (lines_ > kLinesMax) {
    base::Log(LogLevel::kWarning,
              std::to_string(lines_ - kLinesMax) + " more " + what_ + " within a minute");
  }
  lines_ = 0;
}

}  // namespace quire::streamd
