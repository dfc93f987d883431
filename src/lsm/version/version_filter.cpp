#include "lsm/version/version_filter.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace quire::lsm {

VersionFilter::VersionFilter(std::vector<uint64_t> snapshots,
                             const std::vector<table::RangeTombstone>& tombstones, bool bottom)
    : snapshots_(std::move(snapshots)),
      tombstones_(tombstones),
      tombstone_set_(tombstones),
      bottom_(bottom) {
  std::sort(snapshots_.begin(), snapshots_.end());
}

// How many snapshots do not see a version of that LSN.
size_t VersionFilter::Stratum(uint64_t lsn) const {
  if (snapshots_.empty()) return 0;
  return static_cast<size_t>(std::lower_bound(snapshots_.begin(), snapshots_.end(), lsn) -
                             snapshots_.begin());
}

bool VersionFilter::Keep(Slice key, log::RecordType type, uint64_t lsn) {
  const size_t stratum = Stratum(lsn);
  at_new_key_ = !any_key_ || key != Slice(key_);
  if (!at_new_key_ && stratum == newer_stratum_) return false;
  if (at_new_key_) key_.assign(key);
  any_key_ = true;
  newer_stratum_ = stratum;
  if (!tombstone_set_.empty()) {
    const uint64_t seen_by_all = stratum < snapshots_.size()
                                     ? snapshots_[stratum]
                                     : std::numeric_limits<uint64_t>::max();
    if (tombstone_set_.Covering(key, seen_by_all) > lsn) return false;
  }
  return !(type == log::RecordType::kDelete && bottom_ && stratum == 0);
}

std::vector<table::RangeTombstone> VersionFilter::KeptTombstones() const {
  std::vector<table::RangeTombstone> kept;
  for (const table::RangeTombstone& tombstone : tombstones_) {
    if (!bottom_ || Stratum(tombstone.lsn) != 0) kept.push_back(tombstone);
  }
  return kept;
}

}  // namespace quire::lsm
