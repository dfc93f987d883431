/// Receives the versions that a flush or a merge keeps: a run's writer, or a stage before it.
///
/// Layer      lsm (internal)
/// Threads    one thread
#pragma once

#include <cstdint>

#include "log/record.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::lsm {

class EntrySink {
 public:
  virtual ~EntrySink() = default;
  /// Adds the next version, in the order of EntryIterator. `new_key`: the version before it had
  /// another key, so that a new table may begin.
  virtual Status Add(Slice key, log::RecordType type, Slice value, uint64_t lsn, bool new_key) = 0;
};

}  // namespace quire::lsm
