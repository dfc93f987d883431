#include "kv/database/database_impl.h"

#include <algorithm>
#include <cstring>

#include "base/log_sink.h"
#include "base/sync_point.h"
#include "kv/protocol/sent_write.h"
#include "kv/protocol/wire.h"

namespace quire::kv {
namespace {

constexpr uint64_t kStagedBatchBytesMin = 1024;
constexpr uint64_t kBatchesPerOwnerMin = 4;
constexpr uint64_t kWindowShare = 2;
constexpr uint64_t kInFlightMax = 8;
// A record of a sequential write up to this size is encoded on the stack.
constexpr uint64_t kStackRecordBytes = 1024;

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
      partitioning_(std::move(parts.partitioning)),
      number_(parts.number),
      options_(std::move(parts.options)),
      memory_(std::move(parts.memory)),
      rank_(context_->rank()),
      size_(context_->size()),
      admission_(context_->exchange.get(), name_, {options_.protection, options_.consistency}),
      counters_(*shared_counters_),
      store_(std::make_unique<LocalStore>(std::move(parts.engine), options_.local_cache_bytes,
                                          rank_, &counters_)),
      direct_(std::move(parts.direct)),
      remote_gets_(std::make_shared<RemoteGets>(context_, number_, std::move(parts.group),
                                                size_ > 1 ? options_.remote_cache_bytes : 0,
                                                shared_counters_)),
      redistribution_(context_) {
  SwitchCaches(options_.protection);
}

Status DatabaseImpl::Begin() {
  if (size_ > 1) {
    QUIRE_ASSIGN_OR_RETURN(
        dispatcher_, Dispatcher::Create(context_->exchange.get(),
                                        DispatcherOptions(options_, size_, number_), &counters_));
    service_ = std::make_unique<OwnerService>(store_.get(), &counters_);
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

// All that has threads, locks, or files of the parent.
void DatabaseImpl::LeaveAll() {
  base::LeaveInChild(context_, memory_, store_, service_, dispatcher_, direct_, remote_gets_, lock_,
                     redistribution_, checkpoints_);
}

Status DatabaseImpl::CheckSizes(Slice key, Slice value) const {
  if (key.empty() || key.size() > log::kKeyBytesMax) [[unlikely]] {
    return Status(Code::kInvalidArgument, "a key of " + std::to_string(key.size()) +
                                              " bytes; keys have 1 to " +
                                              std::to_string(log::kKeyBytesMax));
  }
  if (value.size() > log::kValueBytesMax) [[unlikely]] {
    return Status(Code::kInvalidArgument, "a value of " + std::to_string(value.size()) +
                                              " bytes; values have at most " +
                                              std::to_string(log::kValueBytesMax));
  }
  return Status();
}

DatabaseImpl::Place DatabaseImpl::Locate(Slice key) const {
  const uint64_t hash = base::HashKey(key);
  return {partitioning_.Ask(key, hash, size_), hash};
}

Status DatabaseImpl::BadOwner(int owner) const {
  return runtime::Partitioning::NoSuchOwner(owner, size_).WithContext("database " + name_);
}

Status DatabaseImpl::Put(Slice key, Slice value) {
  const Admission::WriteCall call(admission_, Admission::kPut);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  return PutAdmitted(key, value);
}

Status DatabaseImpl::PutAdmitted(Slice key, Slice value) {
  QUIRE_RETURN_IF_ERROR(CheckSizes(key, value));
  const Place place = Locate(key);
  if (place.owner != rank_) return WriteRemote(place, log::RecordType::kPut, key, value);
  counters_.Add(DatabaseCounter::kPutsLocal);
  return store_->Put({key, place.hash}, value);
}

Status DatabaseImpl::Delete(Slice key) {
  const Admission::WriteCall call(admission_, Admission::kPut);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  return DeleteAdmitted(key);
}

Status DatabaseImpl::DeleteAdmitted(Slice key) {
  QUIRE_RETURN_IF_ERROR(CheckSizes(key, {}));
  const Place place = Locate(key);
  if (place.owner != rank_) return WriteRemote(place, log::RecordType::kDelete, key, {});
  counters_.Add(DatabaseCounter::kPutsLocal);
  return store_->Delete({key, place.hash});
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

Status DatabaseImpl::CheckUpdate(Slice key, Slice argument) const {
  QUIRE_RETURN_IF_ERROR(CheckSizes(key, {}));
  // It travels as the value of a record, behind the function's number.
  constexpr uint64_t kArgumentBytesMax = log::kValueBytesMax - sizeof(uint32_t);
  if (argument.size() <= kArgumentBytesMax) [[likely]]
    return Status();
  return Status(Code::kInvalidArgument, "an argument of " + std::to_string(argument.size()) +
                                            " bytes; those of updates have at most " +
                                            std::to_string(kArgumentBytesMax));
}

Status DatabaseImpl::UpdateAndAnswer(Slice key, uint32_t id, Slice argument, std::string* answer) {
  answer->clear();
  const Admission::WriteCall call(admission_, Admission::kUpdate);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  QUIRE_RETURN_IF_ERROR(CheckUpdate(key, argument));
  const Place place = Locate(key);
  if (place.owner == rank_) {
    counters_.Add(DatabaseCounter::kUpdatesLocal);
    return store_->Update({key, place.hash}, id, argument, answer);
  }
  if (place.owner < 0 || place.owner >= size_) return BadOwner(place.owner);
  counters_.Add(DatabaseCounter::kUpdatesSequential);
  QUIRE_RETURN_IF_ERROR(dispatcher_->Drain(place.owner));
  const Status status =
      AskToWrite(*context_->exchange, place.owner, Channel(number_, WireOperation::kUpdate),
                 EncodeUpdateHead({id, key, {}}), argument, answer);
  return status.ok() ? Status() : OwnerStatus(place.owner, status);
}

Status DatabaseImpl::Update(Slice key, uint32_t id, Slice argument) {
  const Admission::WriteCall call(admission_, Admission::kUpdate);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  QUIRE_RETURN_IF_ERROR(CheckUpdate(key, argument));
  const Place place = Locate(key);
  if (place.owner == rank_) {
    counters_.Add(DatabaseCounter::kUpdatesLocal);
    return store_->Update({key, place.hash}, id, argument);
  }
  // The number of the function, then the argument (docs/format/record.md).
  char small[kStackRecordBytes];
  std::string large;
  char* value = small;
  const size_t size = sizeof id + argument.size();
  if (size > sizeof small) {
    large.resize(size);
    value = large.data();
  }
  std::memcpy(value, &id, sizeof id);
  if (!argument.empty()) std::memcpy(value + sizeof id, argument.data(), argument.size());
  return WriteRemote(place, log::RecordType::kUpdate, key, Slice(value, size));
}

Status DatabaseImpl::WriteRemote(const Place& place, log::RecordType type, Slice key, Slice value) {
  if (place.owner < 0 || place.owner >= size_) [[unlikely]]
    return BadOwner(place.owner);
  const uint64_t size = log::RecordSize(key.size(), value.size());
  const bool update = type == log::RecordType::kUpdate;
  if (!admission_.sequential() && dispatcher_->remote_memtable().Fits(size)) [[likely]] {
    counters_.Add(update ? DatabaseCounter::kUpdatesStaged : DatabaseCounter::kPutsStaged);
    return dispatcher_->remote_memtable().Add(place.owner, type, key, value);
  }
  counters_.Add(update ? DatabaseCounter::kUpdatesSequential : DatabaseCounter::kPutsSequential);
  // Too large to be staged, or the mode has just changed: behind what is staged.
  QUIRE_RETURN_IF_ERROR(dispatcher_->Drain(place.owner));
  if (size <= kStackRecordBytes) {
    alignas(8) char record[kStackRecordBytes];
    log::EncodeRecord(record, type, key, value, 0);
    return SendRecords(place.owner, Slice(record, size));
  }
  const BatchBuffer record(new (std::nothrow) char[size]);
  if (record == nullptr) {
    return Status(Code::kOutOfMemory,
                  "no memory to send a pair of " + std::to_string(size) + " bytes");
  }
  log::EncodeRecord(record.get(), type, key, value, 0);
  return SendRecords(place.owner, Slice(record.get(), size));
}

Status DatabaseImpl::SendRecords(int owner, Slice records) {
  std::string answer;
  const Status status = AskToWrite(*context_->exchange, owner,
                                   Channel(number_, WireOperation::kApply), {}, records, &answer);
  if (!status.ok()) return OwnerStatus(owner, status);
  QUIRE_ASSIGN_OR_RETURN(const ApplyFailures failures, DecodeApplyFailures(answer));
  return failures.lost_count == 0 ? Status() : OwnerStatus(owner, failures.first);
}

Status DatabaseImpl::Compact() {
  QUIRE_RETURN_IF_ERROR(admission_.Admit(Admission::kOpen));
  return store_->engine().Compact();
}

}  // namespace quire::kv
