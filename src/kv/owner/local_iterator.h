/// The ordered iterator over a rank's own pairs, behind the public interface.
///
/// Layer      kv
/// Threads    an iterator: one thread at a time
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "base/threads/executor.h"
#include "engine/storage_engine.h"
#include "quire/database.h"
#include "table/entry_iterator.h"

namespace quire::kv {

/// The objects that an iterator over a database's pairs keeps alive, among them the database.
struct HeldPairs {
  std::shared_ptr<base::Executor> executor;  ///< the executor that the engine uses
  std::shared_ptr<engine::StorageEngine> engine;
  std::unique_ptr<engine::Iterator> iterator;  ///< null: the database was closed
  Status closed;
};

/// The iterators of an open database. They end with it, so that none keeps its files or its lock.
class OpenIterators {
 public:
  /// Returns an iterator over the present pairs of `engine`. Any thread.
  std::unique_ptr<LocalIterator> New(std::shared_ptr<base::Executor> executor,
                                     std::shared_ptr<engine::StorageEngine> engine);
  /// Makes all iterators invalid, with status `why`. No call of one may be under way.
  void End(const Status& why);

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<HeldPairs>> held_;  // guarded by mutex_
};

/// Returns an iterator over the pairs of `entries`, which contains each key once.
std::unique_ptr<LocalIterator> NewEntryPairIterator(std::unique_ptr<table::EntryIterator> entries);
/// Returns an iterator over nothing, whose status() is `status`.
std::unique_ptr<LocalIterator> NewFailedIterator(Status status);

}  // namespace quire::kv
