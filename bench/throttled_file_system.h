/// Storage of a limited rate on top of any other: a rank's share of what its node can write while
/// the rest of the machine does, too.
///
/// Layer      bench
/// Threads    as io::FileSystem; SetRate while nothing is written or read
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "io/paths/forwarding.h"

namespace quire::bench {

/// So many bytes per second, over all that take of it.
class Rate {
 public:
  /// [bytes per second]; 0: no limit
  void Set(double bytes_per_s) { bytes_per_s_ = bytes_per_s; }
  /// Gives `bytes` their time after all that were given before, and returns when no more than
  /// `behind` bytes have not had theirs.
  void Take(uint64_t bytes, uint64_t behind);

 private:
  using Clock = std::chrono::steady_clock;
  Clock::duration TimeOf(uint64_t bytes) const;
  double bytes_per_s_ = 0;
  std::mutex mutex_;
  Clock::time_point free_at_;  // by mutex_
};

/// Reads and writes of its files take their time; maps and everything else do not. As with a page
/// cache, writes wait only where more than kBehindBytes are not yet on the device, and Sync until
/// all are.
class ThrottledFileSystem final : public io::ForwardingFileSystem {
 public:
  static constexpr uint64_t kBehindBytes = 8 << 20;

  using ForwardingFileSystem::ForwardingFileSystem;

  /// [bytes per second] of all files together; 0: no limit
  void SetRate(double bytes_per_s) { rate_->Set(bytes_per_s); }

  Result<std::unique_ptr<io::File>> Open(const std::string& path, io::FileOpenMode mode) override;

 private:
  const std::shared_ptr<Rate> rate_ = std::make_shared<Rate>();
};

}  // namespace quire::bench
