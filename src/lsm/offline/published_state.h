/// A consistent state of a database directory, and the loader that retries until no writer changed
/// the directory while it was read.
///
/// Layer      lsm (internal)
/// Threads    a PublishedState never changes; PublishedStateLoader: pure functions of what is on
///            disk
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/threads/epoch.h"
#include "io/files/file_system.h"
#include "lsm/version/manifest.h"
#include "lsm/version/run_opener.h"
#include "lsm/version/version.h"
#include "lsm/vlog/value_log.h"
#include "quire/options.h"
#include "quire/status.h"
#include "table/table.h"

namespace quire::lsm {

struct PublishedState {
  Manifest manifest;
  std::string writer;  ///< the holder of the lock; empty: none
  Version version;     ///< no active MemTable; immutables: the log's records that are in no table
  std::shared_ptr<const ValueReader> values;
  uint64_t log_records = 0;
  uint64_t log_holes = 0;
  bool has_log = false;  ///< contains all of the log, as long as the edition stays
};

class PublishedStateLoader {
 public:
  PublishedStateLoader(io::FileSystem& fs, std::string directory, const StorageOptions& options,
                       std::shared_ptr<table::BlockCache> cache)
      : fs_(fs), directory_(std::move(directory)), options_(options), cache_(std::move(cache)) {}
  /// Waits for what its readers retired, after which the file system and the cache may go. Readers
  /// that were made from one another share a loader.
  ~PublishedStateLoader() {
    if (base::EpochMaySynchronize()) base::EpochSynchronize();
  }
  PublishedStateLoader(const PublishedStateLoader&) = delete;
  PublishedStateLoader& operator=(const PublishedStateLoader&) = delete;

  /// Returns the present state. `former` (null: none) lends the files that it has open.
  /// Errors  as of Reader::Open.
  Result<std::shared_ptr<const PublishedState>> Next(const PublishedState* former) const;
  io::FileSystem& fs() const { return fs_; }
  const std::string& directory() const { return directory_; }

 private:
  Status ReadStored(Manifest* manifest) const;
  Status Look(const PublishedState* former, KnownTables* known, PublishedState* view) const;
  Status AddLog(const PublishedState* former, PublishedState* view) const;
  void KeepLog(const PublishedState& former, PublishedState* view) const;
  Status ReplayLog(PublishedState* view) const;
  Status Explain(const Status& failure, const Manifest& manifest) const;

  io::FileSystem& fs_;
  const std::string directory_;
  const StorageOptions options_;
  const std::shared_ptr<table::BlockCache> cache_;
};

}  // namespace quire::lsm
