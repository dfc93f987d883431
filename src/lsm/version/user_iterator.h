/// An iterator over what a program sees: the newest version of each key at a snapshot, without
/// deleted keys.
///
/// Layer      lsm
/// Source     LevelDB's DBIter for the two directions
/// Threads    an iterator belongs to one thread at a time
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/iterator.h"
#include "lsm/version/version.h"
#include "lsm/vlog/value_resolver.h"
#include "table/entry_iterator.h"
#include "table/merging_iterator.h"

namespace quire::lsm {

/// The objects that an iterator keeps alive.
struct IteratorSources {
  std::shared_ptr<const Version> version;
  std::vector<std::shared_ptr<SegmentHandle>> young_segments;  ///< not in `version` yet
  std::vector<std::shared_ptr<const SortedView>> views;
  std::vector<std::unique_ptr<table::EntryIterator>> entries;
  std::vector<table::RangeTombstone> tombstones;
  std::shared_ptr<const ValueResolver> values;
  uint64_t snapshot = 0;
};

/// Adds the MemTables, runs and base of sources->version, as of sources->snapshot, and their range
/// tombstones.
void AddVersion(IteratorSources* sources);

/// Returns an iterator over nothing, whose status() is `status`.
std::unique_ptr<engine::Iterator> NewFailedIterator(Status status);

std::unique_ptr<engine::Iterator> NewUserIterator(IteratorSources sources,
                                                  const engine::IteratorOptions& options);

}  // namespace quire::lsm
