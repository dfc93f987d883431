/// Decides which versions a flush or merge keeps: those that a reader can still request.
///
/// Layer      lsm
/// Source     LevelDB's and RocksDB's compaction rules for snapshots and tombstones
/// Threads    one thread
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "log/record.h"
#include "quire/slice.h"
#include "table/entry_iterator.h"
#include "table/tombstone_set.h"

namespace quire::lsm {

/// A filter for entries by rising key, versions newest first.
///
/// The snapshots divide the LSNs into strata; of the versions in one stratum readers see only the
/// newest. So a version is dropped if a newer one of its key, or a range tombstone over it, lies in
/// the same stratum. A tombstone itself is dropped if nothing older can reappear: the entries come
/// from all older sources too (`bottom`), and no snapshot is older.
class VersionFilter {
 public:
  /// `snapshots`: LSNs that live snapshots read at, in any order. `tombstones`: all range
  /// tombstones of the sources.
  VersionFilter(std::vector<uint64_t> snapshots,
                const std::vector<table::RangeTombstone>& tombstones, bool bottom);

  /// Returns whether the next version must be kept.
  bool Keep(Slice key, log::RecordType type, uint64_t lsn);
  /// Returns whether the last version passed to Keep had another key than the one before it.
  bool at_new_key() const { return at_new_key_; }
  /// Returns the range tombstones that must be kept.
  std::vector<table::RangeTombstone> KeptTombstones() const;

 private:
  size_t Stratum(uint64_t lsn) const;

  std::vector<uint64_t> snapshots_;   // rising
  const std::vector<table::RangeTombstone>& tombstones_;
  const table::TombstoneSet tombstone_set_;
  const bool bottom_;
  bool any_key_ = false;
  bool at_new_key_ = false;
  std::string key_;                   // of the last version
  size_t newer_stratum_ = 0;          // of the last version
};

}  // namespace quire::lsm
