/// The ordered walk over a rank's own pairs, as the public interface shows it.
///
/// Layer      kv
/// Threads    one thread at a time
#pragma once

#include <memory>

#include "base/executor.h"
#include "lsm/db.h"
#include "quire/database.h"
#include "table/entry_iterator.h"

namespace quire::kv {

/// Over the pairs of `db` as they are now. The iterator keeps `db`, and the executor it works with,
/// as long as it lives.
std::unique_ptr<LocalIterator> NewPairIterator(std::shared_ptr<base::Executor> executor,
                                               std::shared_ptr<lsm::Db> db);
/// Over the pairs of `entries`, which has each key once.
std::unique_ptr<LocalIterator> NewEntryPairIterator(std::unique_ptr<table::EntryIterator> entries);
/// An iterator over nothing, whose status() is `status`.
std::unique_ptr<LocalIterator> NewFailedIterator(Status status);

}  // namespace quire::kv
