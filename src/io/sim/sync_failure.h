/// An open simulated file of which a sync can fail as it does on Linux.
///
/// Layer      io (internal, simulation)
/// Source     Can Applications Recover from fsync Failures?, USENIX ATC 2020
/// Threads    any, serialized inside
#pragma once

#include <cstdint>

namespace quire::io {

class SyncFailure {
 public:
  virtual ~SyncFailure() = default;
  /// The sync of [offset, offset + size) has failed: see SimContent::FailSync.
  virtual void FailSync(uint64_t offset, uint64_t size) = 0;
};

}  // namespace quire::io
