/// Opens the directory of a database: takes it over from earlier openers, and recovers the log that
/// the last one left.
///
/// Layer      lsm (internal)
/// Source     docs/durability.md
/// Encoding   docs/format/manifest.md, segment.md
/// Threads    one thread, which holds the directory's lock, before any other uses the database
/// Invariants once the directory is taken over an orphan of an earlier opener can change nothing.
///            The manifest's boot stays the old one until the log is recovered: a power loss in
///            between explains the same things. A log file is removed only after a manifest that
///            does not need it is in force.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine_kind.h"
#include "lsm/jobs/job_parts.h"
#include "lsm/memtable/memtable_pool.h"
#include "lsm/version/manifest.h"
#include "lsm/version/recovery.h"
#include "lsm/version/run_opener.h"
#include "lsm/version/version_set.h"
#include "lsm/vlog/held_directory.h"
#include "lsm/vlog/value_log.h"
#include "quire/options.h"
#include "quire/status.h"

namespace quire::lsm {

/// The parts of a database that lie in its directory, and the numbers of its recovery.
struct OpenedDirectory {
  uint64_t store_id = 0;
  CheckHeldFn check_held;  ///< whether the directory is still this opener's
  std::shared_ptr<MemTablePool> pool;
  std::unique_ptr<ValueLog> values;
  uint64_t recovered_records = 0;
  uint64_t recovered_holes = 0;
  uint64_t recovered_torn_bytes = 0;
};

class Opening {
 public:
  /// `tables` names the directory. `opened` receives each part when it is made, also if a later
  /// step fails. All arguments outlive this.
  Opening(const TablePlace& tables, engine::EngineEnvironment& environment, VersionSet& versions,
          OpenedDirectory* opened)
      : tables_(tables),
        fs_(*tables.fs),
        directory_(tables.directory),
        options_(*tables.options),
        environment_(environment),
        versions_(versions),
        opened_(*opened) {}
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

  /// Checks the directory, writes this opener's manifest, and makes all parts of `opened`. The
  /// caller attaches these to `versions` before Recover.
  ///
  /// Errors  kNotFound, kInvalidArgument: whether there is a database contradicts `flags`.
  ///         kCorruption: a file is damaged or missing. kNoSpace, kOutOfMemory, kIo.
  Status TakeOver(engine::OpenFlags flags);
  /// Makes the first Version, of the tables and the recovered log, and begins this opener's log.
  /// MemTables are flushed with `jobs` if they cannot wait.
  ///
  /// Errors  kCorruption (names the file): damage, or a log broken below what was promised.
  ///         kNoSpace, kOutOfMemory, kIo. kBusy: no log segment is free.
  Status Recover(const JobParts& jobs);

 private:
  Result<Manifest> LoadManifest(engine::OpenFlags flags) const;
  Status ReplaceManifest();
  Status MakePool();
  Status MakeValueLog();
  Status OpenStoredRuns(std::mutex& mutex);
  RecoveryHelp RecoveryHelpers();
  void LogHoles(const RecoveredLog& log) const;
  void ShowRecovered(RecoveredLog* log);
  Status SyncRecoveredValues(const std::map<uint64_t, ByteRange>& segments);
  Status FlushRecovered(const JobParts& jobs, bool all);
  Status BeginActive(const RecoveredLog& log);
  Status RemoveStrayLogs(const RecoveredLog& log);
  Status RemoveAll(const std::vector<std::string>& paths);

  const TablePlace tables_;
  io::FileSystem& fs_;
  const std::string directory_;
  const StorageOptions& options_;
  engine::EngineEnvironment& environment_;
  VersionSet& versions_;
  OpenedDirectory& opened_;
  DirectoryContents contents_;           // set by TakeOver
  Manifest stored_;                      // set by TakeOver: of the earlier opener
  std::optional<LogRecovery> recovery_;  // set by TakeOver
};

}  // namespace quire::lsm
