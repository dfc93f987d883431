/// The sync points around each sync of a file and of a directory: tests hold a thread there, in
/// every file system that makes syncs of its own.
///
/// Layer      io (internal)
/// Threads    any
#pragma once

#include "base/threads/sync_point.h"
#include "quire/status.h"

namespace quire::io {

/// Calls `sync` between two sync points and returns its result. Not for syncs of a mapping: their
/// callers have sync points of their own.
template <typename SyncFn>
Status AtFileSync(const SyncFn& sync) {
  base::SyncPoint("io.sync.file.before");
  const Status status = sync();
  base::SyncPoint("io.sync.file.after");
  return status;
}

template <typename SyncFn>
Status AtDirectorySync(const SyncFn& sync) {
  base::SyncPoint("io.sync.directory.before");
  const Status status = sync();
  base::SyncPoint("io.sync.directory.after");
  return status;
}

}  // namespace quire::io
