/// Storage of a limited rate on top of any other: a rank's share of its node's bandwidth while all
/// nodes write.
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

/// A number of bytes per second, shared by all its users.
class Rate {
 public:
  /// [bytes per second]; 0: no limit
  void Set(double bytes_per_s) { bytes_per_s_ = bytes_per_s; }
  /// Schedules `bytes` after all earlier ones, and returns when the time of all but `behind` bytes
  /// has passed.
  void Take(uint64_t bytes, uint64_t behind);

 private:
  using Clock = std::chrono::steady_clock;
  Clock::duration TimeOf(uint64_t bytes) const;
  double bytes_per_s_ = 0;
  std::mutex mutex_;
  Clock::time_point free_at_;  // by mutex_
};

/// Reads and writes of its files take their time; maps and everything else do not. As with a page
/// cache, writes wait only if more than kBehindBytes are not yet on the device, and Sync waits
/// until all are.
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
