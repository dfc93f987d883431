/// The parts of a database at one moment: MemTables and runs of tables. Readers load the newest
/// Version inside an EpochGuard; iterators hold theirs.
///
/// Layer      lsm
/// Source     LevelDB's versions; RocksDB's superversion
/// Threads    a Version never changes once published; its parts are shared by Versions
/// Invariants a table's file exists as long as a handle of it does; runs are newest first, and
///            every LSN in a run is above every LSN in the runs behind it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/backing_store.h"
#include "lsm/memtable/memtable_pool.h"
#include "quire/slice.h"
#include "table/table.h"

namespace quire::lsm {

/// Unreachable files that background work must remove. Filled when the last reference is dropped,
/// on any thread.
class ObsoleteFiles {
 public:
  void AddTable(const std::string& path) noexcept;
  void AddSegment(uint64_t segment_id) noexcept;
  std::vector<std::string> TakeTables();
  std::vector<uint64_t> TakeSegments();

 private:
  std::mutex mutex_;
  std::vector<std::string> tables_;
  std::vector<uint64_t> segments_;
};

/// A table. Once no manifest names it, its file becomes obsolete with the last reference.
class TableHandle {
 public:
  TableHandle(std::shared_ptr<table::Table> table, std::string path,
              std::shared_ptr<ObsoleteFiles> obsolete_files)
      : table_(std::move(table)),
        path_(std::move(path)),
        obsolete_files_(std::move(obsolete_files)) {}
  ~TableHandle();
  TableHandle(const TableHandle&) = delete;
  TableHandle& operator=(const TableHandle&) = delete;

  const table::Table& table() const { return *table_; }
  const table::TableInfo& info() const { return table_->info(); }
  /// Notes that the manifest does not name it any more.
  void SetObsolete() { obsolete_.store(true, std::memory_order_release); }

 private:
  const std::shared_ptr<table::Table> table_;
  const std::string path_;
  const std::shared_ptr<ObsoleteFiles> obsolete_files_;
  std::atomic<bool> obsolete_{false};
};

/// Tables by key that do not overlap; made by one flush or one merge.
class Run {
 public:
  explicit Run(std::vector<std::shared_ptr<TableHandle>> tables);
  const std::vector<std::shared_ptr<TableHandle>>& tables() const { return tables_; }
  /// Returns the only table that can contain a version of `key`; null: none.
  const table::Table* Find(Slice key) const {
    if (tables_.size() == 1) return &tables_[0]->table();
    return FindAmongMany(key);
  }
  /// Returns the index of that table: the last whose smallest key is <= `key`, 0 if there is none.
  size_t FindIndex(Slice key) const;
  uint64_t bytes() const { return bytes_; }
  uint64_t newest_ssid() const { return newest_ssid_; }
  bool has_range_tombstones() const { return has_range_tombstones_; }

 private:
  const table::Table* FindAmongMany(Slice key) const;

  std::vector<std::shared_ptr<TableHandle>> tables_;
  uint64_t bytes_ = 0;
  uint64_t newest_ssid_ = 0;
  bool has_range_tombstones_ = false;
};

/// A value segment to which a Version's tables may refer; its file goes with the last Version that
/// lists it.
class SegmentHandle {
 public:
  SegmentHandle(uint64_t id, std::shared_ptr<ObsoleteFiles> obsolete_files)
      : id_(id), obsolete_files_(std::move(obsolete_files)) {}
  ~SegmentHandle();
  SegmentHandle(const SegmentHandle&) = delete;
  SegmentHandle& operator=(const SegmentHandle&) = delete;

  uint64_t id() const { return id_; }
  /// Notes that the manifest does not name it any more.
  void SetObsolete() { obsolete_.store(true, std::memory_order_release); }

 private:
  const uint64_t id_;
  const std::shared_ptr<ObsoleteFiles> obsolete_files_;
  std::atomic<bool> obsolete_{false};
};

struct Version : std::enable_shared_from_this<Version> {
  std::shared_ptr<PooledMemTable> active;
  std::vector<std::shared_ptr<PooledMemTable>> immutables;  ///< newest first
  std::vector<std::shared_ptr<const Run>> runs;           ///< newest first
  std::vector<std::shared_ptr<SegmentHandle>> segments;   ///< value segments in the manifest
  uint64_t edition = 0;   ///< of the manifest that lists `runs`, or of a later one
  std::shared_ptr<const engine::BackingStore> base;  ///< null: none
  /// segments from this id on may be missing in `segments`
  uint64_t segments_floor = 1;
};

}  // namespace quire::lsm
