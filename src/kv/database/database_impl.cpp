#include "kv/database/database_impl.h"

#include <algorithm>
#include <utility>

namespace quire::kv {
namespace {

constexpr uint64_t kStagedBatchBytesMin = 1024;
constexpr uint64_t kBatchesPerOwnerMin = 4;
constexpr uint64_t kWindowShare = 2;
constexpr uint64_t kInFlightMax = 8;

Dispatcher::Options DispatcherOptions(const DatabaseOptions& options, int rank_count,
                                      uint32_t number) {
  Dispatcher::Options result;
  result.database_number = number;
  result.remote_memtable.rank_count = rank_count;
  result.remote_memtable.bytes_max = options.remote_memtable_bytes;
  // With many owners, batches shrink so that every owner can have some.
  const uint64_t share =
      options.remote_memtable_bytes / (kBatchesPerOwnerMin * static_cast<uint64_t>(rank_count));
  result.remote_memtable.batch_bytes =
      std::clamp(share, kStagedBatchBytesMin, options.migrate_batch_bytes) & ~uint64_t{7};
  // Other requests shall find room in the window, too.
  const uint64_t window = comm::ExchangeOptions().window_bytes / kWindowShare;
  result.remote_memtable.in_flight_max =
      std::clamp<uint64_t>(window / result.remote_memtable.batch_bytes, 1, kInFlightMax);
  return result;
}

}  // namespace

DatabaseImpl::DatabaseImpl(std::shared_ptr<runtime::ContextState> context, DatabaseParts parts)
    : context_(std::move(context)),
      name_(std::move(parts.name)),
      directory_(std::move(parts.directory)),
      owners_(std::move(parts.partitioning), context_->rank(), context_->size(), name_),
      number_(parts.number),
      options_(std::move(parts.options)),
      memory_(std::move(parts.memory)),
      admission_(context_->exchange.get(), name_, {options_.protection, options_.consistency}),
      store_(std::make_unique<LocalStore>(std::move(parts.engine), options_.local_cache_bytes,
                                          context_->rank(), counters_.get())),
      write_path_({admission_, owners_, *store_, *context_->exchange, number_, *counters_}),
      read_path_({owners_, *store_, *counters_}, std::move(parts.direct),
                 std::make_shared<RemoteGets>(
                     context_, number_, std::move(parts.group),
                     context_->size() > 1 ? options_.remote_cache_bytes : 0, counters_)),
      redistribution_(context_) {
  SwitchCaches(options_.protection);
}

Status DatabaseImpl::Begin() {
  if (context_->size() > 1) {
    QUIRE_ASSIGN_OR_RETURN(
        dispatcher_, Dispatcher::Create(context_->exchange.get(),
                                        DispatcherOptions(options_, context_->size(), number_),
                                        counters_.get()));
    service_ = std::make_unique<OwnerService>(store_.get(), counters_.get());
    write_path_.Attach(dispatcher_.get());
    read_path_.Attach(dispatcher_.get());
    service_->Attach(context_->exchange.get(), number_);
  }
  const std::lock_guard<std::mutex> lock(context_->mutex);
  context_->progress_clients.push_back(this);
  return Status();
}

DatabaseImpl::~DatabaseImpl() {
  if (admission_.process().forked()) {
    LeaveAll();
  } else {
    Shutdown();
  }
}

// Leaves everything that has threads, locks, or files of the parent.
void DatabaseImpl::LeaveAll() {
  base::LeaveInChild(context_, memory_, store_, service_, dispatcher_, read_path_, lock_,
                     redistribution_, checkpoints_);
}

Status DatabaseImpl::Put(Slice key, Slice value) {
  const Admission::WriteCall call(admission_, Admission::kPut);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  return write_path_.Put(key, value);
}

Status DatabaseImpl::Delete(Slice key) {
  const Admission::WriteCall call(admission_, Admission::kPut);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  return write_path_.Delete(key);
}

Status DatabaseImpl::Get(Slice key, const BufferAllocator& allocate) {
  QUIRE_RETURN_IF_ERROR(admission_.Admit(Admission::kGet));
  return read_path_.Get(key, allocate);
}

std::unique_ptr<PendingGet> DatabaseImpl::GetAsync(Slice key) {
  Status admitted = admission_.Admit(Admission::kGet);
  if (!admitted.ok()) return NewReadyGet(std::move(admitted), std::string());
  return read_path_.GetAsync(key);
}

Status DatabaseImpl::GetMany(const std::vector<Slice>& keys, std::vector<std::string>* values,
                             std::vector<bool>* found) {
  QUIRE_RETURN_IF_ERROR(admission_.Admit(Admission::kGet));
  return read_path_.GetMany(keys, values, found);
}

Status DatabaseImpl::PutMany(const std::vector<std::pair<Slice, Slice>>& pairs) {
  const Admission::WriteCall call(admission_, Admission::kPut);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  return write_path_.PutMany(pairs);
}

Status DatabaseImpl::DeleteMany(const std::vector<Slice>& keys) {
  const Admission::WriteCall call(admission_, Admission::kPut);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  return write_path_.DeleteMany(keys);
}

Status DatabaseImpl::Write(const Batch& batch) {
  const Admission::WriteCall call(admission_, Admission::kPut);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  return write_path_.Write(batch);
}

Status DatabaseImpl::Update(Slice key, uint32_t id, Slice argument) {
  const Admission::WriteCall call(admission_, Admission::kUpdate);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  return write_path_.Update(key, id, argument);
}

Status DatabaseImpl::UpdateAndAnswer(Slice key, uint32_t id, Slice argument, std::string* answer) {
  answer->clear();
  const Admission::WriteCall call(admission_, Admission::kUpdate);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  return write_path_.UpdateAndAnswer(key, id, argument, answer);
}

Status DatabaseImpl::RegisterUpdate(uint32_t id, UpdateFunction function) {
  QUIRE_RETURN_IF_ERROR(admission_.Admit(Admission::kOpen));
  if (!function) return store_->updates().Register(id, {});
  return store_->updates().Register(
      id, [silent = std::move(function)](Slice key, const Slice* present, Slice argument,
                                         std::string* updated, std::string* /*answer*/) {
        return silent(key, present, argument, updated);
      });
}

Status DatabaseImpl::RegisterAnsweringUpdate(uint32_t id, AnsweringUpdateFunction function) {
  QUIRE_RETURN_IF_ERROR(admission_.Admit(Admission::kOpen));
  return store_->updates().Register(id, std::move(function));
}

Status DatabaseImpl::Compact() {
  QUIRE_RETURN_IF_ERROR(admission_.Admit(Admission::kOpen));
  return store_->engine().Compact();
}

}  // namespace quire::kv
