#include "lsm/db/value_separator.h"

#include <algorithm>
#include <string>

#include "base/threads/epoch.h"
#include "base/threads/sync_point.h"

namespace quire::lsm {
namespace {

// A MemTable is full, too, when its records refer to so many times its size: what is overwritten by
// then is found to be dead only when it was flushed, and after a power loss every reference in it
// is checked.
constexpr uint64_t kValueBytesFactor = 8;

Slice ReferenceBytes(const log::ValueRef& reference) {
  return Slice(reinterpret_cast<const char*>(&reference), sizeof reference);
}

}  // namespace

Status ValueSeparator::RefusalOf(Slice key, uint64_t value_size) const {
  if (!log::IsKeySize(key.size())) return log::KeySizeError(key.size());
  if (value_size > log::kValueBytesMax) {
    return Status(Code::kInvalidArgument, "a value of " + std::to_string(value_size) +
                                              " bytes; values have at most 4294967295");
  }
  return Status(Code::kInvalidArgument,
                "a key of " + std::to_string(key.size()) + " bytes does not fit a MemTable of " +
                    std::to_string(options_.memtable_bytes) + ": raise memtable_bytes");
}

Status ValueSeparator::CheckRange(const engine::WriteOp& op) const {
  if (op.value.size() > log::kKeyBytesMax) {  // no table takes it
    return Status(Code::kInvalidArgument, "a range whose end has " +
                                              std::to_string(op.value.size()) +
                                              " bytes; keys have at most 65536");
  }
  if (StoredBytes(op) <= record_bytes_max_) return Status();
  return Status(Code::kInvalidArgument, "the range's two keys do not fit a MemTable of " +
                                            std::to_string(options_.memtable_bytes) +
                                            " bytes: raise memtable_bytes");
}

bool ValueSeparator::SeparatesAny(const std::vector<engine::WriteOp>& ops) const {
  return std::any_of(ops.begin(), ops.end(),
                     [this](const engine::WriteOp& op) { return Separates(op); });
}

uint64_t ValueSeparator::StoredBytes(const engine::WriteOp& op) const {
  return log::RecordSize(op.key.size(), Separates(op) ? sizeof(log::ValueRef) : op.value.size());
}

bool ValueSeparator::MayHoldUp(const std::vector<engine::WriteOp>& ops) const {
  uint64_t bytes = 0;
  for (const engine::WriteOp& op : ops) bytes += Separates(op) ? op.value.size() : 0;
  return bytes >= kHoldUpBytes;
}

bool ValueSeparator::IsFull(const PooledMemTable& memory) const {
  return memory.value_bytes() >= kValueBytesFactor * options_.memtable_bytes;
}

bool ValueSeparator::Count(PooledMemTable& memory, uint64_t value_bytes) const {
  return memory.AddValueBytes(value_bytes, kValueBytesFactor * options_.memtable_bytes);
}

Status ValueSeparator::Separate(engine::WriteOp* op, log::ValueRef* reference) {
  QUIRE_RETURN_IF_ERROR(Append(op->key, op->value, reference));
  op->type = log::RecordType::kValueRef;
  op->value = ReferenceBytes(*reference);
  return Status();
}

Status ValueSeparator::SeparateAll(const std::vector<engine::WriteOp>& ops, Group* group) {
  group->references.resize(ops.size());
  group->ops = ops;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!Separates(ops[i])) continue;
    QUIRE_RETURN_IF_ERROR(Separate(&group->ops[i], &group->references[i]));
    group->value_bytes += ops[i].value.size();
  }
  return Status();
}

Status ValueSeparator::StoreLarge(const std::vector<engine::WriteOp>& ops, LargeValues* large,
                                  uint64_t* full_generation) {
  {
    const base::EpochGuard guard;
    const Version& version = versions_.Load();
    if (IsFull(*version.active)) {
      *full_generation = version.active->generation();
      return Status();
    }
  }
  large->protection.emplace(versions_.segments().Protect(values_->open_floor()));
  const Status stored = SeparateAll(ops, &large->group);
  base::SyncPoint("lsm.write.large");
  return stored;
}

Status ValueSeparator::Append(Slice key, Slice value, log::ValueRef* reference) {
  const Status appended = values_->Append(key, value, reference);
  if (appended.code() == Code::kBusy) {  // as where a log segment is to be made
    health_.Fail(appended, "making a value segment");
    return health_.WriteStatus();
  }
  QUIRE_RETURN_IF_ERROR(appended);
  counters_.Add(StorageCounter::kValueLogBytes, log::RecordSize(key.size(), value.size()));
  return Status();
}

}  // namespace quire::lsm
