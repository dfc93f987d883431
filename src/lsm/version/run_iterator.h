/// Ordered access to a run: its tables one after another, each opened when it is reached.
///
/// Layer      lsm
/// Threads    an iterator belongs to one thread at a time
#pragma once

#include <memory>

#include "lsm/version/version.h"
#include "table/entry_iterator.h"

namespace quire::lsm {

/// Returns an iterator over the entries of `run`, which must outlive it. `fill_cache` as for
/// Table::NewIterator.
std::unique_ptr<table::EntryIterator> NewRunIterator(const Run& run, bool fill_cache);

}  // namespace quire::lsm
