/// Salvages, as new tables, what can be read of a log that does not replay, and of a table with
/// damaged blocks or missing values.
///
/// Layer      lsm (internal, tools)
/// Encoding   docs/format/segment.md, table.md
/// Threads    one thread, which holds the directory's lock, or changes nothing
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "log/segment.h"
#include "lsm/memtable/memtable_pool.h"
#include "lsm/version/recovery.h"
#include "lsm/version/run_writer.h"
#include "lsm/vlog/value_log.h"
#include "quire/status.h"
#include "table/table.h"

namespace quire::lsm {

/// Versions that could not be kept.
struct LostVersions {
  uint64_t count = 0;
  std::vector<std::string> some_keys;  ///< the first few
  void Add(Slice key);
};

/// Log segments that may contain records that are in no table.
struct LogRemains {
  struct Segment {
    uint64_t pool_slot = 0;
    std::string path;
    uint64_t base_lsn = 0;
    uint64_t end_lsn = 0;  ///< above every LSN that it may hold
    Status status;  ///< why nothing of it can be read
  };
  std::vector<Segment> segments;  ///< oldest first; unreadable ones last
  uint64_t lsn_end = 0;           ///< above every LSN that any segment, wanted or not, may hold
  uint64_t owner_epoch = 0;       ///< the highest one that a segment names
};
/// Finds the segments for which `wanted` returns true, among all whose use began.
/// Errors  as of reading a file, except for damage: kIo; kUnsupported: a newer format.
Result<LogRemains> FindLogRemains(io::FileSystem& fs, const std::string& directory,
                                  const std::vector<uint64_t>& pool_slots,
                                  const std::function<bool(const log::SegmentHeader&)>& wanted);

/// Every sound record of a log segment, in an adopted MemTable; damaged ones are skipped.
struct SalvagedLog {
  std::shared_ptr<PooledMemTable> memory;
  uint64_t records = 0;
  uint64_t holes = 0;  ///< places where records were damaged, or never finished
  uint64_t hole_bytes = 0;
  LostVersions lost;  ///< sound records whose separated values are not sound
  /// The places of the values of the other records; these values may not be durable.
  std::map<uint64_t, ByteRange> value_segments;
};
/// Salvages the log segment at `path`.
/// Errors  kCorruption; kIo, kOutOfMemory: the segment, or a value, cannot be read for another
///         reason than its contents.
Result<SalvagedLog> SalvageLog(io::FileSystem& fs, const std::string& path,
                               const ValueReader& values);

/// Writes all records of `memory` to `writer`.
Status WriteAll(const PooledMemTable& memory, RunWriter& writer);
/// The result of SalvageTable.
struct SalvagedTable {
  uint64_t kept = 0;                     ///< entries
  LostVersions lost;                     ///< entries whose values are gone
  std::vector<table::LostRange> ranges;  ///< of damaged blocks
};
/// Writes the entries of the table at `path` to `writer` (null: they are only counted), except
/// those in damaged blocks, and those whose values are in the segments `gone`.
///
/// Errors  kCorruption: nothing of the table can be found. kIo.
Result<SalvagedTable> SalvageTable(io::FileSystem& fs, const std::string& path,
                                   const table::TableInfo& info, const StorageOptions& options,
                                   const std::set<uint64_t>& gone, RunWriter* writer);

/// Describes for people how many versions were lost, and some of their keys.
std::string Describe(const LostVersions& lost);
/// Describes for people what the table at `path` has lost.
std::vector<std::string> LossesOf(const std::string& path, const table::TableInfo& info,
                                  const SalvagedTable& salvaged);

}  // namespace quire::lsm
