#include "lsm/db/opening.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/core/log_sink.h"
#include "base/threads/epoch.h"
#include "io/files/machine.h"
#include "log/segment.h"
#include "lsm/jobs/flush_job.h"

namespace quire::lsm {

Status Opening::TakeOver(engine::OpenFlags flags) {
  QUIRE_ASSIGN_OR_RETURN(contents_, ReadDirectory(fs_, directory_));
  QUIRE_ASSIGN_OR_RETURN(stored_, LoadManifest(flags));
  QUIRE_RETURN_IF_ERROR(CheckListed(contents_, stored_, directory_));
  recovery_.emplace(fs_, directory_, stored_, RecoveryHelpers());
  QUIRE_RETURN_IF_ERROR(recovery_->CheckHeaders(contents_.logs));
  QUIRE_RETURN_IF_ERROR(ReplaceManifest());
  QUIRE_RETURN_IF_ERROR(RemoveAll(Orphans(contents_, stored_, directory_)));
  QUIRE_RETURN_IF_ERROR(MakePool());
  return MakeValueLog();
}

Status Opening::Recover(const JobParts& jobs) {
  QUIRE_RETURN_IF_ERROR(OpenStoredRuns(*jobs.mutex));
  QUIRE_ASSIGN_OR_RETURN(RecoveredLog log, recovery_->Run(contents_.logs));
  QUIRE_RETURN_IF_ERROR(CheckLogValues(contents_, log, directory_));
  opened_.recovered_records = log.records;
  opened_.recovered_holes = log.holes;
  opened_.recovered_torn_bytes = log.torn_bytes;
  if (log.holes != 0 && base::LogEnabled()) LogHoles(log);
  opened_.pool->RaiseNextLsn((log.lsn_max + 7) / 8 * 8);
  versions_.segments().Recover(opened_.values->Segments(), log.end_lsn);
  ShowRecovered(&log);
  QUIRE_RETURN_IF_ERROR(SyncRecoveredValues(log.value_segments));
  QUIRE_RETURN_IF_ERROR(RemoveAll(log.unfinished));
  QUIRE_RETURN_IF_ERROR(FlushRecovered(jobs, log.must_flush));
  QUIRE_RETURN_IF_ERROR(BeginActive(log));
  return RemoveStrayLogs(log);
}

// The manifest on disk; for a new database, that of the one before its first opener.
Result<Manifest> Opening::LoadManifest(engine::OpenFlags flags) const {
  if (contents_.has_manifest) {
    if (flags == engine::OpenFlags::kMustNotExist) {
      return Status(Code::kInvalidArgument, "there is a database in " + directory_ + " already");
    }
    return ReadManifest(fs_, directory_);
  }
  if (flags == engine::OpenFlags::kMustExist) {
    return Status(Code::kNotFound, "there is no database in " + directory_);
  }
  QUIRE_RETURN_IF_ERROR(CheckNoRemains(contents_, directory_));
  Manifest manifest;
  manifest.store_id = io::RandomU64();
  manifest.boot_id = fs_.BootId();
  manifest.flushed_lsn = log::kSegmentHeaderBytes;
  manifest.options = options_;
  return manifest;
}

// From here on an orphan of an earlier opener can change nothing. The boot stays the old one until
// the log was recovered (a power loss in between explains the same things), and what the log
// consists of is there, and has its headers, is checked already.
Status Opening::ReplaceManifest() {
  Manifest manifest = stored_;
  manifest.epoch = stored_.epoch + 1;
  manifest.edition = stored_.edition + 1;
  manifest.options = options_;
  manifest.log_segments.clear();  // empty ones are used again before the next manifest
  if (!contents_.has_manifest) {  // nothing else is in the directory before it
    QUIRE_RETURN_IF_ERROR(CreateManifest(fs_, directory_, manifest));
  }
  // The directory's name is durable before the second edition is written: a program that made the
  // first one may have died before it was.
  if (stored_.edition <= 1) {
    QUIRE_RETURN_IF_ERROR(fs_.SyncDirectory(io::DirectoryOf(directory_)));
  }
  opened_.store_id = manifest.store_id;
  opened_.check_held = [&fs = fs_, directory = directory_, store = opened_.store_id,
                        epoch = manifest.epoch] { return CheckHeld(fs, directory, store, epoch); };
  return versions_.TakeOver(stored_, std::move(manifest), contents_.has_manifest);
}

Status Opening::MakePool() {
  PoolConfig config;
  config.fs = &fs_;
  config.directory = directory_;
  config.options = options_;
  config.share_memory = environment_.share_memory;
  config.owner_epoch = versions_.epoch();
  config.check_held = opened_.check_held;
  config.found = contents_.logs;
  QUIRE_ASSIGN_OR_RETURN(opened_.pool, MemTablePool::Create(config));
  return Status();
}

Status Opening::MakeValueLog() {
  ValueLogStart start;
  start.owner_epoch = versions_.epoch();
  start.check_held = opened_.check_held;
  start.next_id = stored_.next_value_segment_id;
  start.sealed = LiveValueSegments(contents_, stored_);
  for (const ValueSegmentInfo& segment : start.sealed) {
    start.next_id = std::max(start.next_id, segment.id + 1);
  }
  QUIRE_ASSIGN_OR_RETURN(opened_.values,
                         ValueLog::Open(fs_, directory_, options_, *environment_.executor, start));
  return Status();
}

Status Opening::OpenStoredRuns(std::mutex& mutex) {
  auto version = std::make_shared<Version>();
  version->base = std::move(environment_.base);  // Versions alone keep it, so that it can go
  KnownTables known;
  QUIRE_ASSIGN_OR_RETURN(version->runs, OpenRuns(tables_, stored_.runs, &known));
  const std::lock_guard<std::mutex> lock(mutex);
  versions_.InstallLocked(std::move(version));  // the first: there is none to retire
  return Status();
}

// Segments are adopted as they lie.
RecoveryHelp Opening::RecoveryHelpers() {
  RecoveryHelp help;
  help.adopt = [this](const std::string& path) -> Result<std::shared_ptr<PooledMemTable>> {
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<log::Segment> segment, log::Segment::Open(fs_, path));
    return opened_.pool->Adopt(std::move(segment));
  };
  help.check_value = [this](const log::ValueRef& reference) {
    return opened_.values->Check(reference);
  };
  return help;
}

void Opening::LogHoles(const RecoveredLog& log) const {
  const std::string places = std::to_string(log.holes);
  if (log.torn_bytes == 0) {
    base::Log(LogLevel::kInfo, "the log in " + directory_ + " had " + places +
                                   " records whose writers had died in them; they were never "
                                   "acknowledged and are left out");
    return;
  }
  base::Log(LogLevel::kWarning, "the log in " + directory_ +
                                    " lost records that were acknowledged, but not synced, as "
                                    "a power loss does; it ends before the first of them, and " +
                                    std::to_string(log.torn_bytes) + " bytes are dropped (" +
                                    places + " places)");
}

void Opening::ShowRecovered(RecoveredLog* log) {
  {
    VersionSet::Change change(versions_);
    std::shared_ptr<Version> version = versions_.Successor(change);
    version->immutables.assign(log->handles.rbegin(), log->handles.rend());
    versions_.InstallLocked(std::move(version));
  }
  log->handles.clear();
}

// The values to which the recovered log refers may be in the page cache only, as the log itself.
// The log is synced on request, or flushed; its values in segments of an earlier opener are synced
// here, once.
Status Opening::SyncRecoveredValues(const std::map<uint64_t, ByteRange>& segments) {
  for (const auto& [id, in_doubt] : segments) {
    QUIRE_RETURN_IF_ERROR(SyncFoundFile(fs_, directory_ + "/" + ValueSegmentName(id), in_doubt));
  }
  return segments.empty() ? Status() : fs_.SyncDirectory(directory_);
}

// Recovered MemTables wait in the flushing queue like others, unless the log could not be read once
// more the same way (`all`), the queue is shorter than they are many, or there is no slot for the
// new one.
Status Opening::FlushRecovered(const JobParts& jobs, bool all) {
  while (true) {
    std::shared_ptr<PooledMemTable> oldest;
    {
      const std::lock_guard<std::mutex> lock(*jobs.mutex);
      const size_t count = versions_.current()->immutables.size();
      const size_t room = static_cast<size_t>(options_.flushing_queue_length) - 1;
      if (count == 0 || (!all && count <= room && opened_.pool->HasFreeSlot())) return Status();
      oldest = versions_.current()->immutables.back();
    }
    QUIRE_RETURN_IF_ERROR(FlushJob(jobs, oldest).Run());
    oldest.reset();
    base::EpochCollect();
  }
}

// The first MemTable of this opener, and the manifest that names its log.
Status Opening::BeginActive(const RecoveredLog& log) {
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<PooledMemTable> active,
                         opened_.pool->Prepare(MemTablePool::IndexPages::kAsUsed));
  if (active == nullptr) {
    return Status(Code::kBusy, "no log segment is free in " + directory_);
  }
  // Its pages are allocated as they are written: opening does not wait for them.
  active->Activate(log.end_generation, log.end_lsn);
  {
    VersionSet::Change change(versions_);
    std::shared_ptr<Version> version = versions_.Successor(change);
    version->active = std::move(active);
    versions_.InstallLocked(std::move(version));
  }
  versions_.SetBoot(fs_.BootId());
  return versions_.Publish({});
}

// Log segments that this pool does not use, whose contents are in tables, and those that recovery
// gave up. The active one may have the number of one of them.
Status Opening::RemoveStrayLogs(const RecoveredLog& log) {
  const auto pool_slots = static_cast<uint64_t>(opened_.pool->region().pool_slots());
  std::vector<std::string> paths;
  for (const uint64_t number : contents_.logs) {
    if (options_.wal != WalMode::kOff && number == versions_.Pin()->active->file_number()) continue;
    const bool given_up =
        std::find(log.given_up.begin(), log.given_up.end(), number) != log.given_up.end();
    if (!given_up && number < pool_slots && options_.wal != WalMode::kOff) continue;
    paths.push_back(directory_ + "/" + LogSegmentName(static_cast<int>(number)));
  }
  return RemoveAll(paths);
}

Status Opening::RemoveAll(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const Status removed = fs_.Unlink(path);
    if (removed.code() != Code::kNotFound) QUIRE_RETURN_IF_ERROR(removed);
  }
  return Status();
}

}  // namespace quire::lsm
