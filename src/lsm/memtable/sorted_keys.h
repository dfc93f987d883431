/// Sorts the keys of records: by their first bytes that differ, as numbers. Only if those are
/// equal, the records are read.
///
/// Layer      lsm (internal)
/// Source     MSD radix sort (McIlroy, Bostic, McIlroy: Engineering Radix Sort) on 8-byte pieces
/// Threads    a run is immutable once made; the rest are pure functions
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "log/record.h"
#include "lsm/memtable/sorted_view.h"
#include "quire/slice.h"

namespace quire::lsm {

constexpr size_t kTopStep = 64;

/// Distinct keys in order.
struct SortedKeys {
  std::string common;  ///< the first bytes, which all keys share
  std::vector<SortedEntry> entries;  ///< prefix: of what follows `common`
  std::vector<uint64_t> tops;        ///< the prefix of each kTopStep-th entry: searched first

  /// Returns the index of the first entry whose key is >= `key`.
  size_t LowerBound(const char* data, Slice key) const;
};

/// Returns the key of an entry's record. `data`: the segment.
inline Slice KeyOf(const char* data, const SortedEntry& entry) {
  return log::KeyOf(data + uint64_t{entry.record} * 8);
}

/// Sorts `entries` (records of distinct keys; prefixes are computed here) into a run.
SortedKeys MakeRun(const char* data, std::vector<SortedEntry> entries);
/// Merges two runs, whose keys differ, into one.
SortedKeys MergeRuns(const char* data, const SortedKeys& first, const SortedKeys& second);

}  // namespace quire::lsm
