/// What can be saved of a log that does not replay, and of a table with damaged blocks or whose
/// values are gone: as new tables.
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

/// Log segments that may hold what is in no table.
struct LogRemains {
  struct Segment {
    uint64_t pool_slot = 0;
    std::string path;
    uint64_t base_lsn = 0;
    uint64_t end_lsn = 0;  ///< above every LSN that it may hold
    Status status;  ///< why nothing of it can be read
  };
  std::vector<Segment> segments;  ///< oldest first; unreadable ones behind
  uint64_t lsn_end = 0;           ///< above every LSN that any segment, wanted or not, may hold
  uint64_t owner_epoch = 0;       ///< the highest one that a segment names
};
/// Those that `wanted` takes, of all whose use began.
/// Errors  as of reading a file, but for damage: kIo; kUnsupported: a newer format.
Result<LogRemains> FindLogRemains(io::FileSystem& fs, const std::string& directory,
                                  const std::vector<uint64_t>& pool_slots,
                                  const std::function<bool(const log::SegmentHeader&)>& wanted);

/// Every sound record of a log segment, in an adopted MemTable; damaged ones are stepped over.
struct SalvagedLog {
  std::shared_ptr<PooledMemTable> memory;
  uint64_t records = 0;
  uint64_t holes = 0;  ///< places where records were damaged, or never finished
  uint64_t hole_bytes = 0;
  LostVersions lost;  ///< sound records whose separated values are not
  /// Where the values of the others lie: none of them need be durable.
  std::map<uint64_t, ByteRange> value_segments;
};
/// Errors  kCorruption; kIo, kOutOfMemory: the segment, or a value, cannot be read for another
///         reason than what is in it.
Result<SalvagedLog> SalvageLog(io::FileSystem& fs, const std::string& path,
                               const ValueReader& values);

/// All that `memory` holds, to `writer`.
Status WriteAll(const PooledMemTable& memory, RunWriter& writer);
/// The result for a table.
struct SalvagedTable {
  uint64_t kept = 0;                     ///< entries
  LostVersions lost;                     ///< entries whose values are gone
  std::vector<table::LostRange> ranges;  ///< of damaged blocks
};
/// All of the table at `path` but what lies in damaged blocks, and the values in the segments
/// `gone`, to `writer` (null: it is only counted).
///
/// Errors  kCorruption: nothing of it can be found. kIo.
Result<SalvagedTable> SalvageTable(io::FileSystem& fs, const std::string& path,
                                   const table::TableInfo& info, const StorageOptions& options,
                                   const std::set<uint64_t>& gone, RunWriter* writer);

/// For people: how many versions, and some of their keys.
std::string Describe(const LostVersions& lost);
/// For people: what the table at `path` has lost.
std::vector<std::string> LossesOf(const std::string& path, const table::TableInfo& info,
                                  const SalvagedTable& salvaged);

}  // namespace quire::lsm
