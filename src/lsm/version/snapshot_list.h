/// The LSNs at which live snapshots read.
///
/// Layer      lsm
/// Threads    any
/// Invariants a flush or merge that began before a snapshot was taken keeps what that snapshot
///            sees: everything it merges is older than the snapshot, so the newest versions are
///            enough.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <vector>

namespace quire::lsm {

class SnapshotList {
 public:
  /// Adds the LSN that `lsn` returns; calls it under the list's lock.
  uint64_t Add(const std::function<uint64_t()>& lsn) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return *lsns_.insert(lsn());
  }
  void Remove(uint64_t lsn) {
    const std::lock_guard<std::mutex> lock(mutex_);
    lsns_.erase(lsns_.find(lsn));
  }
  /// Returns the LSNs, rising.
  std::vector<uint64_t> All() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return {lsns_.begin(), lsns_.end()};
  }

 private:
  mutable std::mutex mutex_;
  std::multiset<uint64_t> lsns_;
};

}  // namespace quire::lsm
