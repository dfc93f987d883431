// Opening: the manifest, the tables, what the log promises; waiting for background work; closing.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/epoch.h"
#include "base/log_sink.h"
#include "base/out_of_memory.h"
#include "io/files/machine.h"
#include "lsm/db/db_impl.h"
#include "lsm/jobs/flush_job.h"

namespace quire::lsm {

DbImpl::DbImpl(const engine::EngineEnvironment& environment, std::string directory,
               const StorageOptions& options)
    : environment_(environment),
      fs_(*environment.fs),
      executor_(*environment.executor),
      directory_(std::move(directory)),
      options_(options),
      cache_(environment.cache != nullptr ? environment.cache
                                          : table::NewBlockCache(options.cache_bytes)),
      obsolete_files_(std::make_shared<ObsoleteFiles>()),
      health_(directory_, mutex_, changed_),
      log_sync_(directory_, versions_, health_),
      jobs_(executor_, mutex_, changed_, health_),
      versions_(fs_, directory_, obsolete_files_, {log_sync_.mutex(), mutex_, changed_}),
      compactions_(versions_, options_, executor_, mutex_, changed_),
      resolver_([this](const log::ValueRef& reference, const BufferAllocator& allocate) {
        return ReadValue(reference, allocate);
      }),
      separator_(options_, versions_, health_, counters_),
      room_({fs_, directory_, options_, mutex_, changed_, versions_, health_, jobs_, counters_},
            environment_.pinned_wait_ms_max),
      cleaner_(health_),
      flusher_({executor_, mutex_, changed_, versions_, compactions_, health_, jobs_, cleaner_}),
      merger_({executor_, mutex_, changed_, versions_, compactions_, health_, jobs_, cleaner_},
              flusher_, CallsOfMerges()) {
  // A flush is one job, so that on a single thread a merge gets its turn: it does flushes that
  // become due on its way.
  jobs_.Add({[this] { return flusher_.WantedLocked(); }, [this] { flusher_.FlushOnce(); }});
  jobs_.Add({[this] { return compactions_.Wanted(); }, [this] { merger_.Run(); }, true});
  jobs_.Add({[this] { return room_.PrepareDueLocked(); }, [this] { room_.PrepareIfDue(); }});
}

Merger::Calls DbImpl::CallsOfMerges() {
  Merger::Calls calls;
  calls.append_value = [this](Slice key, Slice value, log::ValueRef* reference) {
    return separator_.Append(key, value, reference);
  };
  calls.prepare_if_due = [this] { room_.PrepareIfDue(); };
  calls.values = &resolver_;
  return calls;
}

JobParts DbImpl::PartsOfJobs() {
  const TablePlace tables{&fs_, directory_, &options_, cache_, obsolete_files_, true};
  return {tables, check_held_, &mutex_, &versions_, values_.get(), &snapshots_, &counters_};
}

Status DbImpl::Start(std::unique_ptr<io::FileLock> lock, engine::OpenFlags flags) {
  lock_ = std::move(lock);
  QUIRE_ASSIGN_OR_RETURN(const DirectoryContents contents, ReadDirectory(fs_, directory_));
  QUIRE_ASSIGN_OR_RETURN(const Manifest stored, LoadManifest(contents, flags));
  QUIRE_RETURN_IF_ERROR(CheckListed(contents, stored, directory_));
  LogRecovery recovery(fs_, directory_, stored, RecoveryHelpers());
  QUIRE_RETURN_IF_ERROR(recovery.CheckHeaders(contents.logs));
  QUIRE_RETURN_IF_ERROR(TakeOver(contents, stored));
  QUIRE_RETURN_IF_ERROR(OpenParts(contents, stored));

  QUIRE_ASSIGN_OR_RETURN(RecoveredLog log, recovery.Run(contents.logs));
  QUIRE_RETURN_IF_ERROR(CheckLogValues(contents, log, directory_));
  recovered_records_ = log.records;
  recovered_holes_ = log.holes;
  recovered_torn_bytes_ = log.torn_bytes;
  if (log.holes != 0 && base::LogEnabled()) LogHoles(log);
  pool_->RaiseNextLsn((log.lsn_max + 7) / 8 * 8);
  versions_.segments().Recover(values_->Segments(), log.end_lsn);
  {
    VersionSet::Change change(versions_);
    std::shared_ptr<Version> version = versions_.Successor(change);
    version->immutables.assign(log.handles.rbegin(), log.handles.rend());
    versions_.InstallLocked(std::move(version));
  }
  log.handles.clear();
  QUIRE_RETURN_IF_ERROR(SyncRecoveredValues(log.value_segments));
  QUIRE_RETURN_IF_ERROR(RemoveAll(log.unfinished));
  QUIRE_RETURN_IF_ERROR(FlushRecovered(log.must_flush));
  QUIRE_RETURN_IF_ERROR(BeginActive(log));
  QUIRE_RETURN_IF_ERROR(RemoveStrayLogs(contents, log));
  cleaner_.CleanUp();
  const std::lock_guard<std::mutex> state_lock(mutex_);
  jobs_.ScheduleDueLocked();
  return Status();
}

void DbImpl::LogHoles(const RecoveredLog& log) const {
  const std::string places = std::to_string(log.holes);
  if (log.torn_bytes == 0) {
    base::Log(LogLevel::kInfo, "the log in " + directory_ + " had " + places +
                                   " records whose writers had died in them; they were never "
                                   "acknowledged and are left out");
    return;
  }
  base::Log(LogLevel::kWarning,
            "the log in " + directory_ + " lost records that were acknowledged, but not synced, as "
            "a power loss does; it ends before the first of them, and " +
                std::to_string(log.torn_bytes) + " bytes are dropped (" + places + " places)");
}

// Segments are adopted as they lie.
RecoveryHelp DbImpl::RecoveryHelpers() {
  RecoveryHelp help;
  help.adopt = [this](const std::string& path) -> Result<std::shared_ptr<PooledMemTable>> {
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<log::Segment> segment, log::Segment::Open(fs_, path));
    return pool_->Adopt(std::move(segment));
  };
  help.check_value = [this](const log::ValueRef& reference) { return values_->Check(reference); };
  return help;
}

// The manifest on disk; for a new database, that of the one before its first opener.
Result<Manifest> DbImpl::LoadManifest(const DirectoryContents& contents, engine::OpenFlags flags) {
  if (contents.has_manifest) {
    if (flags == engine::OpenFlags::kMustNotExist) {
      return Status(Code::kInvalidArgument, "there is a database in " + directory_ + " already");
    }
    return ReadManifest(fs_, directory_);
  }
  if (flags == engine::OpenFlags::kMustExist) {
    return Status(Code::kNotFound, "there is no database in " + directory_);
  }
  QUIRE_RETURN_IF_ERROR(CheckNoRemains(contents, directory_));
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
Status DbImpl::TakeOver(const DirectoryContents& contents, const Manifest& stored) {
  Manifest manifest = stored;
  manifest.epoch = stored.epoch + 1;
  manifest.edition = stored.edition + 1;
  manifest.options = options_;
  manifest.log_segments.clear();  // empty ones are used anew before the next manifest
  if (!contents.has_manifest) {  // nothing else is in the directory before it
    QUIRE_RETURN_IF_ERROR(CreateManifest(fs_, directory_, manifest));
  }
  // The directory's name is durable before the second edition is written: a program that made the
  // first one may have died before it was.
  if (stored.edition <= 1) {
    QUIRE_RETURN_IF_ERROR(fs_.SyncDirectory(io::DirectoryOf(directory_)));
  }
  store_id_ = manifest.store_id;
  check_held_ = [&fs = fs_, directory = directory_, store = store_id_, epoch = manifest.epoch] {
    return CheckHeld(fs, directory, store, epoch);
  };
  return versions_.TakeOver(stored, std::move(manifest), contents.has_manifest);
}

Status DbImpl::OpenParts(const DirectoryContents& contents, const Manifest& stored) {
  QUIRE_RETURN_IF_ERROR(RemoveAll(Orphans(contents, stored, directory_)));
  PoolConfig config;
  config.fs = &fs_;
  config.directory = directory_;
  config.options = options_;
  config.share_memory = environment_.share_memory;
  config.owner_epoch = versions_.epoch();
  config.check_held = check_held_;
  config.found = contents.logs;
  QUIRE_ASSIGN_OR_RETURN(pool_, MemTablePool::Create(config));
  pool_->OnFree([this] { changed_.notify_all(); });

  ValueLogStart start;
  start.owner_epoch = versions_.epoch();
  start.check_held = check_held_;
  start.next_id = stored.next_value_segment_id;
  start.sealed = LiveValueSegments(contents, stored);
  for (const ValueSegmentInfo& segment : start.sealed) {
    start.next_id = std::max(start.next_id, segment.id + 1);
  }
  QUIRE_ASSIGN_OR_RETURN(values_, ValueLog::Open(fs_, directory_, options_, executor_, start));
  versions_.Attach(pool_.get(), values_.get());
  log_sync_.Attach(values_.get());
  separator_.Attach(values_.get());
  room_.Attach(pool_.get());
  const JobParts parts = PartsOfJobs();
  cleaner_.Attach(parts, pool_.get());
  flusher_.Attach(parts);
  merger_.Attach(parts);
  return OpenStoredRuns(stored);
}

Status DbImpl::OpenStoredRuns(const Manifest& stored) {
  auto version = std::make_shared<Version>();
  version->base = std::move(environment_.base);  // Versions alone keep it, so that it can go
  KnownTables known;
  QUIRE_ASSIGN_OR_RETURN(version->runs, OpenRuns(PartsOfJobs().tables, stored.runs, &known));
  const std::lock_guard<std::mutex> lock(mutex_);
  versions_.InstallLocked(std::move(version));  // the first: there is none to retire
  return Status();
}

// The values that the recovered log refers to may be in the page cache only, as the log itself. The
// log is synced when somebody asks for it, or flushed; what belongs to it in segments of an earlier
// opener is looked after here, once.
Status DbImpl::SyncRecoveredValues(const std::map<uint64_t, ByteRange>& segments) {
  for (const auto& [id, in_doubt] : segments) {
    QUIRE_RETURN_IF_ERROR(
        SyncFoundFile(fs_, directory_ + "/" + ValueSegmentName(id), in_doubt));
  }
  return segments.empty() ? Status() : fs_.SyncDirectory(directory_);
}

// Recovered MemTables wait in the flushing queue like others, unless the log could not be read once
// more the same way (`all`), the queue is shorter than they are many, or there is no slot for the
// new one.
Status DbImpl::FlushRecovered(bool all) {
  while (true) {
    std::shared_ptr<PooledMemTable> oldest;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const size_t count = versions_.current()->immutables.size();
      const size_t room = static_cast<size_t>(options_.flushing_queue_length) - 1;
      if (count == 0 || (!all && count <= room && pool_->HasFreeSlot())) return Status();
      oldest = versions_.current()->immutables.back();
    }
    QUIRE_RETURN_IF_ERROR(FlushJob(PartsOfJobs(), oldest).Run());
    oldest.reset();
    base::EpochCollect();
  }
}

// The first MemTable of this opener, and the manifest that names its log.
Status DbImpl::BeginActive(const RecoveredLog& log) {
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<PooledMemTable> active,
                         pool_->Prepare(MemTablePool::IndexPages::kAsUsed));
  if (active == nullptr) {
    return Status(Code::kBusy, "no log segment is free in " + directory_);
  }
  // Its pages come as they are stored to: opening does not wait for them.
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
Status DbImpl::RemoveStrayLogs(const DirectoryContents& contents, const RecoveredLog& log) {
  const auto pool_slots = static_cast<uint64_t>(pool_->region().pool_slots());
  std::vector<std::string> paths;
  for (const uint64_t number : contents.logs) {
    if (options_.wal != WalMode::kOff && number == versions_.Pin()->active->file_number()) continue;
    const bool given_up =
        std::find(log.given_up.begin(), log.given_up.end(), number) != log.given_up.end();
    if (!given_up && number < pool_slots && options_.wal != WalMode::kOff) continue;
    paths.push_back(directory_ + "/" + LogSegmentName(static_cast<int>(number)));
  }
  return RemoveAll(paths);
}

Status DbImpl::RemoveAll(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const Status removed = fs_.Unlink(path);
    if (removed.code() != Code::kNotFound) QUIRE_RETURN_IF_ERROR(removed);
  }
  return Status();
}

Status DbImpl::background_status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return health_.failure();
}

Status DbImpl::WaitIdle() {
  std::unique_lock<std::mutex> lock(mutex_);
  jobs_.ScheduleDueLocked();
  Status status = jobs_.WaitLocked(lock, [this] { return jobs_.idle(); });
  if (status.ok()) status = health_.WriteStatusLocked();  // a job that failed is over, too
  lock.unlock();
  cleaner_.CleanUp();
  return status;
}

Status DbImpl::Compact() {
  QUIRE_RETURN_IF_ERROR(Flush());
  return merger_.CompactAll();
}

DbImpl::~DbImpl() {
  if (options_.wal == WalMode::kOff && versions_.has_version() &&
      versions_.current()->active != nullptr) {
    health_.LogFailure(base::OrOutOfMemory([this] { return Flush(); }));
  }
  jobs_.Close();
  if (pool_ != nullptr) {
    pool_->OnFree({});
    pool_->region().MarkClosed();
  }
  std::shared_ptr<const Version> last;
  std::optional<uint64_t> free_log;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (NothingInTheLogLocked()) free_log = versions_.current()->active->file_number();
    if (versions_.current() != nullptr && versions_.current()->active != nullptr)
      versions_.current()->active->Close();
    last = versions_.TakeLastLocked();
  }
  room_.DropPrepared();
  base::EpochSynchronize();
  last.reset();
  // Where there is no memory for it, the next open does.
  if (free_log.has_value()) {
    health_.LogFailure(base::OrOutOfMemory([&] { return FreeLog(*free_log); }));
  }
  if (values_ != nullptr) cleaner_.CleanUp();
}

// Whether all that was written is in tables.
bool DbImpl::NothingInTheLogLocked() const {
  return options_.wal != WalMode::kOff && health_.failure().ok() &&
         versions_.current() != nullptr && versions_.current()->active != nullptr &&
         versions_.current()->immutables.empty() && versions_.current()->active->table().empty();
}

// A closed database takes what its tables take. An opener that came since, or a database that was
// made in this one's place, has log segments of its own: nothing of them is touched.
Status DbImpl::FreeLog(uint64_t active_number) {
  QUIRE_ASSIGN_OR_RETURN(const bool ours, versions_.StillOurs());
  return ours ? pool_->FreeFiles(active_number) : Status();
}

}  // namespace quire::lsm
