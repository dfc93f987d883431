/// Recovers the log that a dead process left in a directory.
///
/// Layer      lsm
/// Source     docs/durability.md: a durable watermark distinguishes a torn tail from damage
/// Encoding   docs/format/manifest.md, segment.md
/// Threads    one thread, which holds the directory's lock, or reads copies while no program holds
///            it
/// Invariants nothing on disk changes but the `prev` fields of records, and only in segments that
///            are adopted in place; the same files give the same result, again and again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "log/segment.h"
#include "lsm/memtable/memtable_pool.h"
#include "lsm/version/manifest.h"
#include "lsm/vlog/value_log.h"
#include "quire/status.h"

namespace quire::lsm {

/// The files of a database's directory, by kind.
struct DirectoryContents {
  bool has_manifest = false;
  std::vector<uint64_t> tables;             ///< SSIDs
  std::vector<uint64_t> logs;               ///< pool slots
  std::vector<StoredSegment> value_segments;   ///< with their sizes, by rising id
  std::vector<std::string> leftovers;       ///< temporary files of an interrupted replacement
};

Result<DirectoryContents> ReadDirectory(io::FileSystem& fs, const std::string& directory);

/// Returns kCorruption if `directory` has no manifest, but files that need one.
Status CheckNoRemains(const DirectoryContents& contents, const std::string& directory);
/// Returns the kCorruption of a missing file; `what`: its kind, as in "a table".
Status MissingFile(const std::string& path, const char* what);
/// Returns kCorruption, naming the file, if a table or log segment that the manifest lists, or a
/// value segment to which a table refers, is missing.
Status CheckListed(const DirectoryContents& contents, const Manifest& manifest,
                   const std::string& directory);
/// Returns the value segments that count: listed ones, and those that may be younger than the
/// manifest.
std::vector<ValueSegmentInfo> LiveValueSegments(const DirectoryContents& contents,
                                                const Manifest& manifest);
/// Returns the paths of the files that belong to no database with this manifest.
std::vector<std::string> Orphans(const DirectoryContents& contents, const Manifest& manifest,
                                 const std::string& directory);

/// One log segment file with a header of a use that began.
struct LogFile {
  std::string path;
  log::SegmentHeader header;
};

/// The bytes [begin, end) of a file.
struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;  ///< no bytes: begin
  /// Adds the record to which `ref` refers, and the bytes between.
  void Add(const log::ValueRef& ref);
};

/// Makes the segment at `path`, which an earlier program left, durable as far as `in_doubt` goes. A
/// sync of that program may have failed: then the kernel takes these pages, and the segment's
/// header, for written, and a plain sync would skip them.
Status SyncFoundFile(io::FileSystem& fs, const std::string& path, const ByteRange& in_doubt);

/// The result of recovery.
struct RecoveredLog {
  /// oldest first, closed; none of them empty
  std::vector<std::shared_ptr<PooledMemTable>> handles;
  uint64_t end_lsn = 0;            ///< where the next segment's chain begins
  uint64_t end_generation = 0;
  uint64_t lsn_max = 0;            ///< above every LSN in any segment, counting or not
  uint64_t records = 0;
  uint64_t holes = 0;        ///< places that were skipped or that end the log
  uint64_t torn_bytes = 0;   ///< finished records that a power loss took, and what lies behind them
  /// The value segments that records refer to, and the part of each that may not be durable.
  std::map<uint64_t, ByteRange> value_segments;
  /// flush before anything new is promised: the log could not be read the same way again
  bool must_flush = false;
  std::vector<std::string> unfinished;   ///< files whose header a power loss took, to be removed
  /// pool slots of segments without records that count, which only show where the log before them
  /// ended: removed when the next manifest is in force, because a repair would take their records
  std::vector<uint64_t> given_up;
};

/// Returns kCorruption, naming the file, if a value segment that a record of `log` refers to is
/// missing.
Status CheckLogValues(const DirectoryContents& contents, const RecoveredLog& log,
                      const std::string& directory);

/// The services of the caller that recovery uses.
struct RecoveryHelp {
  /// returns the segment in this file, with an empty index: adopted in place, or a copy
  std::function<Result<std::shared_ptr<PooledMemTable>>(const std::string& path)> adopt;
  /// adopting copies the whole segment, so segments that were closed empty are skipped
  bool copies = false;
  /// checks whether a separated value is whole; see ValueIsLost (called after a power loss)
  std::function<Status(const log::ValueRef& reference)> check_value;
};

/// Recovers the log that begins at manifest.flushed_lsn.
/// Errors  kCorruption (names the file): damage, or a chain broken below what was promised. kIo,
///         kOutOfMemory.
class LogRecovery {
 public:
  LogRecovery(io::FileSystem& fs, std::string directory, const Manifest& manifest,
              RecoveryHelp help);
  Result<RecoveredLog> Run(const std::vector<uint64_t>& pool_slots);
  /// Checks that every log segment which the manifest lists has its header. An opener calls this
  /// before its own manifest, which lists no segments, replaces that manifest: afterwards a damaged
  /// header would look like one whose use had just begun, and the file would be removed.
  Status CheckHeaders(const std::vector<uint64_t>& pool_slots);

 private:
  Status ReadHeaders(const std::vector<uint64_t>& pool_slots);
  Status TakeHeader(uint64_t pool_slot, const std::string& path, const log::SegmentHeader& header);
  bool Listed(uint64_t pool_slot) const;
  const LogFile* Successor() const;
  void PassEmpty(const LogFile& file);
  Status Take(const LogFile& file);
  Result<log::ReplayReport> Replay(PooledMemTable& handle, const LogFile& file);
  uint64_t CompleteEnd(const LogFile& file) const;
  void NoteValue(const char* record, bool durable);
  Result<uint64_t> EndOfWholeValues(PooledMemTable& handle, const LogFile& file);
  Result<bool> ValueIsWhole(const char* record);
  Result<bool> HasHeader(uint64_t value_segment);
  Result<std::string> HeaderPage(const LogFile& file);
  Result<bool> ClosedEmpty(const LogFile& file);
  Status CheckUnchained(const LogFile& file);

  io::FileSystem& fs_;
  const std::string directory_;
  const Manifest& manifest_;
  const RecoveryHelp help_;
  const uint64_t boot_id_;
  std::vector<LogFile> files_;     // activated segments not contained in tables
  std::vector<bool> chained_;
  uint64_t chain_end_lsn_ = 0;     // where the next one continues; log_ ends before empty ones
  std::set<uint64_t> headed_;      // value segments that have their header
  RecoveredLog log_;
};

/// Reads the log of a database that no program has open, from copies of its segments, which keep
/// the memory of their records; writes nothing.
/// Errors as of LogRecovery.
Result<RecoveredLog> CopyLog(io::FileSystem& fs, const std::string& directory,
                             const Manifest& manifest, const std::vector<uint64_t>& pool_slots,
                             const ValueReader& values);

}  // namespace quire::lsm
