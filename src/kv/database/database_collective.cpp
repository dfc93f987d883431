// Fences, barriers, changes of mode, and the end: what concerns the whole database.
#include <string>
#include <utility>

#include "base/core/log_sink.h"
#include "base/core/out_of_memory.h"
#include "base/threads/sync_point.h"
#include "kv/database/database_impl.h"
#include "kv/migration/fence_report.h"
#include "kv/owner/local_iterator.h"
#include "kv/persistence/checkpoint.h"
#include "kv/protocol/descriptor.h"
#include "runtime/agreement.h"

namespace quire::kv {
namespace {

bool IsLevel(Level level) {
  return level == Level::kMemTable || level == Level::kSsTable;
}

bool IsConsistency(Consistency consistency) {
  return consistency == Consistency::kSequential || consistency == Consistency::kRelaxed;
}

bool IsProtection(Protection protection) {
  switch (protection) {
    case Protection::kReadWrite:
    case Protection::kWriteOnly:
    case Protection::kReadOnly:
    case Protection::kUpdateOnly:
      return true;
  }
  return false;
}

template <typename Enum>
std::string NumberOf(Enum value) {
  return std::to_string(static_cast<int>(value));
}

}  // namespace

Status DatabaseImpl::Fence() {
  QUIRE_RETURN_IF_ERROR(admission_.Admit(Admission::kOpen));
  FenceReport report(dispatcher_.get(), context_->rank());
  Status found = report.Run();
  report.Tell();
  return found;
}

Status DatabaseImpl::Flush() {
  QUIRE_RETURN_IF_ERROR(admission_.Admit(Admission::kOpen));
  return store_->engine().Flush();
}

Status DatabaseImpl::Barrier(Level level) {
  QUIRE_RETURN_IF_ERROR(admission_.Admit(Admission::kOpen));
  FenceReport report(dispatcher_.get(), context_->rank());
  Status fenced = base::OrOutOfMemory([&] { return report.Run(); });
  if (!IsLevel(level)) {
    fenced = Status(Code::kInvalidArgument, "there is no barrier level " + NumberOf(level));
  }
  QUIRE_RETURN_IF_ERROR(report.Told(runtime::Together(*context_->exchange, [&] {
    return runtime::AgreeOn(*context_->exchange, fenced, NumberOf(level), "the barrier's level");
  })));
  base::SyncPoint("kv.barrier.agreed");
  if (level == Level::kMemTable) return Status();
  const Status flushed = base::OrOutOfMemory([&] { return store_->engine().Flush(); });
  base::SyncPoint("kv.barrier.flushed");
  return context_->exchange->Agree(flushed);
}

Result<std::unique_ptr<Event>> DatabaseImpl::Checkpoint(const std::string& path,
                                                        const CheckpointOptions& options) {
  QUIRE_RETURN_IF_ERROR(admission_.Admit(Admission::kOpen));
  const CheckpointNumbers numbers = {context_->TakeNumber(), context_->TakeNumber()};
  return runtime::Together(*context_->exchange,
                           [&] { return BeginCheckpoint(numbers, path, options); });
}

Result<std::unique_ptr<Event>> DatabaseImpl::BeginCheckpoint(const CheckpointNumbers& numbers,
                                                             const std::string& path,
                                                             const CheckpointOptions& options) {
  FenceReport report(dispatcher_.get(), context_->rank());
  Status ready = base::OrOutOfMemory([&] {
    const Status fenced = report.Run();
    return fenced.ok() ? CheckCheckpointPath(path) : fenced;
  });
  // A checkpoint is of one generation.
  const Status moved = runtime::Together(
      *context_->exchange, [&] { return redistribution_.Await(numbers.redistribution); });
  if (ready.ok()) ready = moved;
  if (ready.ok() && options.keep < 0) {
    ready = Status(Code::kInvalidArgument, "CheckpointOptions::keep is " +
                                               std::to_string(options.keep) +
                                               "; give 0 for all, or how many");
  }
  const std::string arguments = path + ", keep " + std::to_string(options.keep);
  QUIRE_RETURN_IF_ERROR(report.Told(
      runtime::AgreeOn(*context_->exchange, ready, arguments, "the checkpoint asked for")));
  // The owners now have the writes of all ranks. No rank writes on before all have captured.
  const CheckpointRequest request = {
      path,        name_, directory_, owners_.partitioning().name(), ShapingOptions(options_),
      options.keep};
  checkpoints_.MakeRoom();
  Result<std::shared_ptr<const engine::Capture>> capture = store_->NewCapture();
  base::SyncPoint("kv.checkpoint.captured");
  QUIRE_RETURN_IF_ERROR(context_->exchange->Agree(capture.status()));
  return checkpoints_.Start(context_, numbers.checkpoint, request, std::move(*capture));
}

Status DatabaseImpl::SetConsistency(Consistency consistency) {
  return ChangeMode({admission_.mode().protection, consistency});
}

Status DatabaseImpl::Protect(Protection protection) {
  return ChangeMode({protection, admission_.mode().consistency});
}

Status DatabaseImpl::ChangeMode(const Admission::Mode& mode) {
  QUIRE_RETURN_IF_ERROR(admission_.Admit(Admission::kOpen));
  const bool known = IsProtection(mode.protection) && IsConsistency(mode.consistency);
  // Until all ranks are here, only calls that are allowed both before and after are admitted. Calls
  // that were admitted before end first; otherwise they would land in the phase that forbids them.
  // And no rank may trust pairs that another may already change.
  admission_.BeginChange(known ? mode : admission_.mode());
  base::SyncPoint("kv.mode.closed");
  read_path_.remote_cache().SetOn(false);
  FenceReport report(dispatcher_.get(), context_->rank());
  Status fenced = base::OrOutOfMemory([&] {
    const Status written = admission_.AwaitWrites();
    base::SyncPoint("kv.mode.written");
    const Status sent = report.Run();
    return written.ok() ? sent : written;
  });
  if (!known) {
    fenced = Status(Code::kInvalidArgument, "there is no protection " + NumberOf(mode.protection) +
                                                " or no consistency " + NumberOf(mode.consistency));
  }
  const Status agreed = report.Told(runtime::Together(*context_->exchange, [&] {
    return runtime::AgreeOn(*context_->exchange, fenced,
                            NumberOf(mode.protection) + "/" + NumberOf(mode.consistency),
                            "the protection or consistency asked for");
  }));
  base::SyncPoint("kv.mode.agreed");
  admission_.EndChange(agreed.ok() ? mode : admission_.mode());
  base::SyncPoint("kv.mode.opened");
  SwitchCaches(admission_.mode().protection);
  return agreed;
}

// Write-only phases do without the local cache; only read-only phases have a remote one (SC17,
// section 3.2).
void DatabaseImpl::SwitchCaches(Protection protection) {
  const bool local = protection != Protection::kWriteOnly;
  if (store_->cache().on() != local) store_->cache().SetOn(local);
  const bool remote = protection == Protection::kReadOnly;
  PairCache& remote_cache = read_path_.remote_cache();
  if (remote_cache.on() != remote) remote_cache.SetOn(remote);
}

std::unique_ptr<LocalIterator> DatabaseImpl::NewLocalIterator() {
  const Status admitted = admission_.Admit(Admission::kGet);
  if (!admitted.ok()) return NewFailedIterator(admitted);
  return iterators_.New(context_->executor, store_->shared_engine());
}

// Flushes, because the next program reads manifests, not logs. If there is no room for tables, a
// log keeps the contents of MemTables; without a log they have no other place.
Status DatabaseImpl::FlushToClose() {
  const Status flushed = store_->engine().Flush();
  if (flushed.code() != Code::kNoSpace || options_.storage.wal == WalMode::kOff) return flushed;
  if (base::LogEnabled()) {
    base::Log(LogLevel::kWarning,
              "database " + name_ +
                  " is closed with its newest writes in its log alone: " + flushed.ToString());
  }
  return Status();
}

Status DatabaseImpl::Close() {
  QUIRE_RETURN_IF_ERROR(admission_.Admit(Admission::kOpen));
  const std::shared_ptr<runtime::ContextState> context = context_;
  return runtime::Together(*context->exchange, [&] { return CloseTogether(*context->exchange); });
}

Status DatabaseImpl::CloseTogether(comm::Exchange& exchange) {
  const Status fenced = base::OrOutOfMemory([&] { return Fence(); });
  const Status waited = checkpoints_.Await();
  // One rank's outcome decides for all: ranks that closed alone would end the database for the
  // others.
  const Status ready = exchange.Agree(fenced.ok() ? waited : fenced);
  base::SyncPoint("kv.close.fenced");
  redistribution_.End();
  const Status kept = base::OrOutOfMemory([&] { return FlushToClose(); });
  base::SyncPoint("kv.close.flushed");
  const std::unique_ptr<io::FileLock> lock = std::move(lock_);
  Teardown();
  base::SyncPoint("kv.close.ended");
  // Until all ranks have released their files, no rank continues, and rank 0 keeps the lock.
  const Status closed = exchange.Agree(kept);
  return ready.ok() ? closed : ready;
}

void DatabaseImpl::Shutdown() {
  if (context_ == nullptr) return;
  if (admission_.is_open()) {
    // Without memory the database ends all the same, as if the process were killed here.
    static_cast<void>(base::OrOutOfMemory([this] {
      Status fenced = Fence();
      if (fenced.ok()) fenced = FlushToClose();
      if (!fenced.ok() && base::LogEnabled()) {
        base::Log(LogLevel::kError,
                  "database " + name_ + " ended without Close: " + fenced.ToString());
      }
      return fenced;
    }));
  }
  Teardown();
  lock_.reset();
  context_.reset();
}

// Ends threads and services, then the files. Idempotent.
void DatabaseImpl::Teardown() {
  if (store_ == nullptr) return;
  admission_.Close();
  const Status closed = base::OrOutOfMemory([this] { return admission_.ClosedStatus(); });
  iterators_.End(closed);
  redistribution_.Stop();
  checkpoints_.Stop();
  {
    const std::lock_guard<std::mutex> lock(context_->mutex);
    std::erase(context_->progress_clients, this);
  }
  if (dispatcher_ != nullptr) dispatcher_->Stop(closed);
  if (service_ != nullptr) service_->Detach(context_->exchange.get(), number_);
  read_path_.End();
  service_.reset();
  dispatcher_.reset();
  store_.reset();
  memory_ = {};
}

void DatabaseImpl::Progress() {
  if (dispatcher_ != nullptr && !context_->exchange->has_handler_thread()) {
    dispatcher_->SendLingering();
  }
}

}  // namespace quire::kv
