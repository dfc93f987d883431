/// A table as the manifest describes it, whose file is opened at its first use: so the time to open
/// a database depends neither on its tables' sizes nor on the latency of their storage.
///
/// Layer      lsm (internal)
/// Source     PapyrusKV, SC17, section 4.1: a database is composed from what its manifest says
/// Threads    any number; the file is opened within the reader's EpochGuard, as blocks are read
/// Invariants it has no range tombstones; a file that cannot be opened is tried again at the next
///            use, but an iterator that was made meanwhile keeps failing (that of its run makes
///            another)
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lsm/version/run_opener.h"
#include "table/table.h"

namespace quire::lsm {

class LazyTable final : public table::Table {
 public:
  /// The place of tables, shared by those of one opening.
  struct Source {
    TablePlace place;
    StorageOptions options;  ///< the options for `place`: tables may outlive their database
  };
  LazyTable(table::TableInfo info, std::shared_ptr<const Source> source)
      : source_(std::move(source)), info_(std::move(info)) {}

  void PrefetchFilter(uint64_t hash) const override;
  bool MayContain(uint64_t hash) const override;
  Status Get(Slice key, uint64_t hash, uint64_t snapshot,
             table::LookupResult* found) const override;
  uint64_t CoveringTombstone(Slice, uint64_t) const override { return 0; }
  const std::vector<table::RangeTombstone>& range_tombstones() const override;
  std::unique_ptr<table::EntryIterator> NewIterator(bool fill_cache) const override;
  const table::TableInfo& info() const override { return info_; }
  Status Verify() const override;
  Status VerifyChecksums() const override;
  Result<std::vector<table::LostRange>> FindLostRanges() const override;

 private:
  // Returns the open table.
  // Errors  kCorruption: the file is missing, damaged or another one (names it). kIo, kOutOfMemory.
  Result<const table::Table*> Use() const;

  // table_, once it is open. In a cache line that a lookup touches anyway.
  mutable std::atomic<const table::Table*> opened_{nullptr};
  mutable std::shared_ptr<table::Table> table_;  // by mutex_
  mutable std::mutex mutex_;
  const std::shared_ptr<const Source> source_;
  const table::TableInfo info_;
};

}  // namespace quire::lsm
