#include "kv/database/write_path.h"

#include <cstring>
#include <memory>
#include <new>

#include "kv/database/bulk_outcome.h"
#include "kv/migration/owner_batch_writer.h"
#include "kv/protocol/pair_sizes.h"
#include "kv/protocol/sent_write.h"
#include "kv/protocol/wire.h"

namespace quire::kv {
namespace {

// A record of a sequential write up to this size is encoded on the stack.
constexpr uint64_t kStackRecordBytes = 1024;

// Calls write_one(0) to write_one(count - 1).
template <typename WriteOne>
Status WriteEach(size_t count, const WriteOne& write_one) {
  BulkOutcome outcome(count);
  for (size_t i = 0; i < count; ++i) outcome.Add(write_one(i));
  return outcome.Take();
}

}  // namespace

Status WritePath::Put(Slice key, Slice value) {
  QUIRE_RETURN_IF_ERROR(CheckSizes(key, value));
  const Place place = parts_.owners.Find(key);
  if (!parts_.owners.IsHere(place.owner)) return WriteRemote(place, log::RecordType::kPut, value);
  parts_.counters.Add(DatabaseCounter::kPutsLocal);
  return parts_.store.Put(place.key, value);
}

Status WritePath::Delete(Slice key) {
  QUIRE_RETURN_IF_ERROR(CheckSizes(key, {}));
  const Place place = parts_.owners.Find(key);
  if (!parts_.owners.IsHere(place.owner)) return WriteRemote(place, log::RecordType::kDelete, {});
  parts_.counters.Add(DatabaseCounter::kPutsLocal);
  return parts_.store.Delete(place.key);
}

Status WritePath::UpdateAndAnswer(Slice key, uint32_t id, Slice argument, std::string* answer) {
  QUIRE_RETURN_IF_ERROR(CheckUpdateSizes(key, argument));
  const Place place = parts_.owners.Find(key);
  if (parts_.owners.IsHere(place.owner)) {
    parts_.counters.Add(DatabaseCounter::kUpdatesLocal);
    return parts_.store.Update(place.key, id, argument, answer);
  }
  if (!parts_.owners.IsRank(place.owner)) return parts_.owners.NoSuchOwner(place.owner);
  parts_.counters.Add(DatabaseCounter::kUpdatesSequential);
  QUIRE_RETURN_IF_ERROR(dispatcher_->Drain(place.owner));
  const uint32_t channel = Channel(parts_.database_number, WireOperation::kUpdate);
  const Status status = AskToWrite(parts_.exchange, place.owner, channel,
                                   EncodeUpdateHead({id, key, {}}), argument, answer);
  return status.ok() ? Status() : OwnerStatus(place.owner, status);
}

Status WritePath::Update(Slice key, uint32_t id, Slice argument) {
  QUIRE_RETURN_IF_ERROR(CheckUpdateSizes(key, argument));
  const Place place = parts_.owners.Find(key);
  if (parts_.owners.IsHere(place.owner)) {
    parts_.counters.Add(DatabaseCounter::kUpdatesLocal);
    return parts_.store.Update(place.key, id, argument);
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
  return WriteRemote(place, log::RecordType::kUpdate, Slice(value, size));
}

Status WritePath::WriteRemote(const Place& place, log::RecordType type, Slice value) {
  if (!parts_.owners.IsRank(place.owner)) [[unlikely]]
    return parts_.owners.NoSuchOwner(place.owner);
  const Slice key = place.key.key;
  const uint64_t size = log::RecordSize(key.size(), value.size());
  const bool update = type == log::RecordType::kUpdate;
  if (!parts_.admission.sequential() && dispatcher_->remote_memtable().Fits(size)) [[likely]] {
    parts_.counters.Add(update ? DatabaseCounter::kUpdatesStaged : DatabaseCounter::kPutsStaged);
    return dispatcher_->remote_memtable().Add(place.owner, type, key, value);
  }
  parts_.counters.Add(update ? DatabaseCounter::kUpdatesSequential
                             : DatabaseCounter::kPutsSequential);
  // Too large to be staged, or the mode has just changed: behind what is staged.
  QUIRE_RETURN_IF_ERROR(dispatcher_->Drain(place.owner));
  if (size <= kStackRecordBytes) {
    alignas(8) char record[kStackRecordBytes];
    log::EncodeRecord(record, type, key, value, 0);
    return SendRecord(place.owner, Slice(record, size));
  }
  const BatchBuffer record(new (std::nothrow) char[size]);
  if (record == nullptr) {
    return Status(Code::kOutOfMemory,
                  "no memory to send a pair of " + std::to_string(size) + " bytes");
  }
  log::EncodeRecord(record.get(), type, key, value, 0);
  return SendRecord(place.owner, Slice(record.get(), size));
}

Status WritePath::SendRecord(int owner, Slice record) {
  std::string answer;
  const uint32_t channel = Channel(parts_.database_number, WireOperation::kApply);
  const Status status = AskToWrite(parts_.exchange, owner, channel, {}, record, &answer);
  if (!status.ok()) return OwnerStatus(owner, status);
  QUIRE_ASSIGN_OR_RETURN(const ApplyFailures failures, DecodeApplyFailures(answer));
  return failures.lost_count == 0 ? Status() : OwnerStatus(owner, failures.first);
}

// --- of many pairs -------------------------------------------------------------------------------

Status WritePath::PutMany(const std::vector<std::pair<Slice, Slice>>& pairs) {
  if (groups_writes()) return WriteGrouped(pairs, log::RecordType::kPut);
  return WriteEach(pairs.size(), [&](size_t i) { return Put(pairs[i].first, pairs[i].second); });
}

Status WritePath::DeleteMany(const std::vector<Slice>& keys) {
  if (!groups_writes()) return WriteEach(keys.size(), [&](size_t i) { return Delete(keys[i]); });
  std::vector<std::pair<Slice, Slice>> pairs;
  pairs.reserve(keys.size());
  for (const Slice key : keys) pairs.emplace_back(key, Slice());
  return WriteGrouped(pairs, log::RecordType::kDelete);
}

Status WritePath::WriteGrouped(const std::vector<std::pair<Slice, Slice>>& pairs,
                               log::RecordType type) {
  // Writes that were staged before the mode changed come first.
  QUIRE_RETURN_IF_ERROR(dispatcher_->DrainAll());
  BulkOutcome outcome(pairs.size());
  OwnerBatchWriter writer(&parts_.exchange, parts_.database_number, WireOperation::kApply);
  for (const auto& [key, value] : pairs) {
    const Status sizes = CheckSizes(key, value);
    const Place place = parts_.owners.Find(key);
    if (!sizes.ok()) {
      outcome.Add(sizes);
    } else if (parts_.owners.IsHere(place.owner)) {
      parts_.counters.Add(DatabaseCounter::kPutsLocal);
      outcome.Add(type == log::RecordType::kPut ? parts_.store.Put(place.key, value)
                                                : parts_.store.Delete(place.key));
    } else if (!parts_.owners.IsRank(place.owner)) {
      outcome.Add(parts_.owners.NoSuchOwner(place.owner));
    } else {
      parts_.counters.Add(DatabaseCounter::kPutsSequential);
      writer.Add(place.owner, type, key, value);
    }
  }
  writer.Finish();
  outcome.AddFailures(writer.failed_count(), writer.first_failure());
  return outcome.Take();
}

Status WritePath::Write(const Batch& batch) {
  engine::WriteBatch local;
  OwnerBatchWriter writer(&parts_.exchange, parts_.database_number, WireOperation::kWrite);
  for (const Batch::Operation& operation : batch.operations()) {
    QUIRE_RETURN_IF_ERROR(CheckSizes(operation.key, operation.value));
    const Place place = parts_.owners.Find(operation.key);
    if (!parts_.owners.IsRank(place.owner)) return parts_.owners.NoSuchOwner(place.owner);
    const log::RecordType type =
        operation.is_delete ? log::RecordType::kDelete : log::RecordType::kPut;
    if (parts_.owners.IsHere(place.owner)) {
      local.Add(type, operation.key, operation.value);
    } else {
      writer.Add(place.owner, type, operation.key, operation.value);
    }
  }
  // Sent behind what this rank has staged for these owners. An owner that does not answer does not
  // keep the others from their parts.
  for (const int owner : writer.Owners()) {
    const Status drained = dispatcher_->Drain(owner);
    if (!drained.ok()) writer.GiveUp(owner, drained);
  }
  BulkOutcome outcome(batch.count());
  if (local.count() > 0) {
    engine::WriteProgress progress;
    const Status written = parts_.store.Write(local.bytes(), &progress);
    if (!written.ok()) outcome.AddFailures(local.count(), written);
  }
  writer.Finish();
  outcome.AddFailures(writer.failed_count(), writer.first_failure());
  return outcome.Take();
}

}  // namespace quire::kv
