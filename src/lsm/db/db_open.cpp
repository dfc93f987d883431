// Opening, with the parts that take part in it; waiting for background work; closing.
#include <optional>
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/threads/epoch.h"
#include "lsm/db/db_impl.h"
#include "lsm/db/opening.h"

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
      cleaner_(job_parts_, health_),
      flusher_(PartsOfWork()),
      merger_(PartsOfWork(), flusher_, CallsOfMerges()) {
  // A flush is one job, so that on a single thread a merge gets its turn: it does flushes that
  // become due on its way.
  jobs_.Add({[this] { return flusher_.WantedLocked(); }, [this] { flusher_.FlushOnce(); }});
  jobs_.Add({[this] { return compactions_.Wanted(); }, [this] { merger_.Run(); }, true});
  jobs_.Add({[this] { return room_.PrepareDueLocked(); }, [this] { room_.PrepareIfDue(); }});
}

Status DbImpl::Start(std::unique_ptr<io::FileLock> lock, engine::OpenFlags flags) {
  lock_ = std::move(lock);
  const TablePlace tables{&fs_, directory_, &options_, cache_, obsolete_files_, true};
  Opening opening(tables, environment_, versions_, &opened_);
  QUIRE_RETURN_IF_ERROR(opening.TakeOver(flags));
  AttachParts();
  job_parts_ = {tables,      opened_.check_held, &mutex_, &versions_, opened_.values.get(),
                &snapshots_, &counters_};
  QUIRE_RETURN_IF_ERROR(opening.Recover(job_parts_));
  cleaner_.CleanUp();
  const std::lock_guard<std::mutex> state_lock(mutex_);
  jobs_.ScheduleDueLocked();
  return Status();
}

void DbImpl::AttachParts() {
  ValueLog* const values = opened_.values.get();
  MemTablePool* const pool = opened_.pool.get();
  pool->OnFree([this] { changed_.notify_all(); });
  versions_.Attach(pool, values);
  log_sync_.Attach(values);
  separator_.Attach(values);
  room_.Attach(pool);
  cleaner_.Attach(pool);
}

Flusher::Parts DbImpl::PartsOfWork() {
  return {executor_, mutex_, changed_, versions_, compactions_,
          health_,   jobs_,  cleaner_, job_parts_};
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
  if (opened_.pool != nullptr) {
    opened_.pool->OnFree({});
    opened_.pool->region().MarkClosed();
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
  // If there is no memory for it, the next open does it.
  if (free_log.has_value()) {
    health_.LogFailure(base::OrOutOfMemory([&] { return FreeLog(*free_log); }));
  }
  if (job_parts_.values != nullptr) cleaner_.CleanUp();
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
  return ours ? opened_.pool->FreeFiles(active_number) : Status();
}

}  // namespace quire::lsm
