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
#include <vector>

#include "io/file_system.h"

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
class ThrottledFileSystem final : public io::FileSystem {
 public:
  static constexpr uint64_t kBehindBytes = 8 << 20;

  /// `base` outlives it and its files.
  explicit ThrottledFileSystem(io::FileSystem& base) : base_(base) {}

  /// [bytes per second] of all files together; 0: no limit
  void SetRate(double bytes_per_s) { rate_->Set(bytes_per_s); }

  Result<std::unique_ptr<io::File>> Open(const std::string& path, io::OpenMode mode) override;
  Result<std::unique_ptr<io::MappedFile>> Map(const std::string& path, uint64_t size,
                                              io::MapMode mode) override {
    return base_.Map(path, size, mode);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return base_.Rename(from, to);
  }
  Status Unlink(const std::string& path) override { return base_.Unlink(path); }
  Status Link(const std::string& from, const std::string& to) override {
    return base_.Link(from, to);
  }
  Status MakeDirectory(const std::string& path) override { return base_.MakeDirectory(path); }
  Status RemoveDirectory(const std::string& path) override { return base_.RemoveDirectory(path); }
  Result<std::vector<io::FileInfo>> List(const std::string& directory) override {
    return base_.List(directory);
  }
  Status SyncDirectory(const std::string& directory) override {
    return base_.SyncDirectory(directory);
  }
  Result<bool> Exists(const std::string& path) override { return base_.Exists(path); }
  Result<std::unique_ptr<io::FileLock>> Lock(const std::string& path,
                                             const std::string& holder) override {
    return base_.Lock(path, holder);
  }
  Result<std::unique_ptr<io::FileLock>> LockShared(const std::string& path) override {
    return base_.LockShared(path);
  }
  Result<std::string> LockHolder(const std::string& path) override {
    return base_.LockHolder(path);
  }
  Result<uint64_t> FreeBytes(const std::string& path) override { return base_.FreeBytes(path); }
  uint64_t BootId() override { return base_.BootId(); }

 private:
  io::FileSystem& base_;
  const std::shared_ptr<Rate> rate_ = std::make_shared<Rate>();
};

}  // namespace quire::bench
