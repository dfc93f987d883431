/// Writes a run: tables one after another, a new one when the last is full; range tombstones are
/// cut at the tables' borders.
///
/// Layer      lsm
/// Threads    one thread
/// Invariants all versions of a key lie in one table; the ranges of the tables, their tombstones
///            included, do not overlap.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "log/record.h"
#include "lsm/version/entry_sink.h"
#include "lsm/version/segment_tracker.h"
#include "lsm/vlog/held_directory.h"
#include "quire/options.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "table/table.h"

namespace quire::lsm {

class RunWriter final : public EntrySink {
 public:
  /// Writes tables to `directory` while `check_held` says that it is this writer's; `next_ssid`
  /// returns their numbers. `protection` covers the value segments to which only these tables
  /// refer. It lives as long as the writer, and so until the tables are published or discarded.
  RunWriter(io::FileSystem& fs, std::string directory, const StorageOptions& options,
            CheckHeldFn check_held, std::function<uint64_t()> next_ssid,
            SegmentTracker::Protection protection)
      : fs_(fs), directory_(std::move(directory)), options_(options),
        check_held_(std::move(check_held)), next_ssid_(std::move(next_ssid)),
        protection_(std::move(protection)) {}
  /// Removes what was written, unless Finish() succeeded.
  ~RunWriter() override;
  RunWriter(const RunWriter&) = delete;
  RunWriter& operator=(const RunWriter&) = delete;

  /// Sets the run's range tombstones. Called before the first Add.
  void SetTombstones(std::vector<table::RangeTombstone> tombstones) {
    tombstones_ = std::move(tombstones);
  }
  Status Add(Slice key, log::RecordType type, Slice value, uint64_t lsn, bool new_key) override;
  /// Returns the tables, by key, synced (but not their directory entries); none if nothing was
  /// added.
  Result<std::vector<table::TableInfo>> Finish();
  /// Removes the files that Finish() wrote, unless the directory belongs to another opener.
  void Remove();
  const SegmentTracker::Protection& protection() const { return protection_; }

 private:
  Status Begin(Slice first_key);
  Status End(const Slice* next_key);
  Status AddTombstones(const Slice* next_key);

  io::FileSystem& fs_;
  const std::string directory_;
  const StorageOptions options_;
  const CheckHeldFn check_held_;
  const std::function<uint64_t()> next_ssid_;
  const SegmentTracker::Protection protection_;
  std::vector<table::RangeTombstone> tombstones_;
  std::unique_ptr<table::TableBuilder> builder_;
  std::string begin_;      // border of the table under construction; of the first: empty
  std::vector<std::string> paths_;
  std::vector<table::TableInfo> tables_;
  bool finished_ = false;
};

}  // namespace quire::lsm
