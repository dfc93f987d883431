// Writes: size checks, large values apart, the MemTable, and the log's sync where it was asked for.
#include <algorithm>
#include <utility>

#include "base/epoch.h"
#include "base/hash.h"
#include "base/out_of_memory.h"
#include "base/sync_point.h"
#include "lsm/db/db_impl.h"

namespace quire::lsm {
namespace {

// A record that would take more of a MemTable than this keeps its value apart, whatever its size.
constexpr uint64_t kRecordShareMax = 4;

// A MemTable is full, too, when its records refer to so many times its size: what is overwritten by
// then is found to be dead only when it was flushed, and after a power loss every reference in it
// is checked.
constexpr uint64_t kValueBytesFactor = 8;

Slice ReferenceBytes(const log::ValueRef& reference) {
  return Slice(reinterpret_cast<const char*>(&reference), sizeof reference);
}

uint64_t UserBytes(const std::vector<engine::WriteOp>& ops) {
  uint64_t bytes = 0;
  for (const engine::WriteOp& op : ops) bytes += op.key.size() + op.value.size();
  return bytes;
}

}  // namespace

Status DbImpl::CheckWrite(Slice key, uint64_t value_size) const {
  if (key.empty() || key.size() > log::kKeyBytesMax) {
    return Status(Code::kInvalidArgument,
                  "a key of " + std::to_string(key.size()) + " bytes; keys have 1 to 65536");
  }
  if (value_size > log::kValueBytesMax) {
    return Status(Code::kInvalidArgument, "a value of " + std::to_string(value_size) +
                                              " bytes; values have at most 4294967295");
  }
  const uint64_t inline_bytes = std::min<uint64_t>(value_size, sizeof(log::ValueRef));
  if (log::RecordSize(key.size(), inline_bytes) > record_bytes_max_) {
    return Status(Code::kInvalidArgument,
                  "a key of " + std::to_string(key.size()) + " bytes does not fit a MemTable of " +
                      std::to_string(options_.memtable_bytes) + ": raise memtable_bytes");
  }
  if (!health_.refused()) [[likely]]
    return Status();
  return health_.WriteStatus();
}

Status DbImpl::CheckOp(const engine::WriteOp& op) const {
  QUIRE_RETURN_IF_ERROR(CheckWrite(op.key, op.value.size()));
  if (op.type != log::RecordType::kRangeDelete) return Status();
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

uint64_t DbImpl::StoredBytes(const engine::WriteOp& op) const {
  return log::RecordSize(op.key.size(),
                         Separated(op) ? sizeof(log::ValueRef) : op.value.size());
}

bool DbImpl::Separated(const engine::WriteOp& op) const {
  if (op.type != log::RecordType::kPut) return false;
  return op.value.size() >= options_.value_separation_bytes_min ||
         (op.value.size() > sizeof(log::ValueRef) &&
          log::RecordSize(op.key.size(), op.value.size()) > record_bytes_max_ / kRecordShareMax);
}

Status DbImpl::AppendValue(Slice key, Slice value, log::ValueRef* reference) {
  const Status appended = values_->Append(key, value, reference);
  if (appended.code() == Code::kBusy) {  // as where a log segment is to be made
    health_.Fail(appended, "making a value segment");
    return health_.WriteStatus();
  }
  QUIRE_RETURN_IF_ERROR(appended);
  counters_.Add(StorageCounter::kValueLogBytes, log::RecordSize(key.size(), value.size()));
  return Status();
}

Status DbImpl::Separate(engine::WriteOp* op, log::ValueRef* reference) {
  QUIRE_RETURN_IF_ERROR(AppendValue(op->key, op->value, reference));
  op->type = log::RecordType::kValueRef;
  op->value = ReferenceBytes(*reference);
  return Status();
}

Status DbImpl::Put(Slice key, Slice value) {
  return WriteOne(log::RecordType::kPut, key, value);
}

Status DbImpl::Delete(Slice key) { return WriteOne(log::RecordType::kDelete, key, {}); }

Status DbImpl::WriteOne(log::RecordType type, Slice key, Slice value) {
  QUIRE_RETURN_IF_ERROR(CheckWrite(key, value.size()));
  if (value.size() >= kHoldUpBytes) {
    engine::WriteProgress progress;
    return WriteGroup({{type, key, value}}, false, &progress);
  }
  while (true) {
    uint64_t lsn = 0;
    uint64_t full_generation = 0;
    bool added = false;
    {
      // From the value's place to the record that refers to it under one guard: a value segment is
      // judged dead only after a grace period.
      const bool locked = key_locks_.enabled();
      const KeyLock key_lock = locked
                                   ? KeyLock(key_locks_, KeyLocks::IndexOf(base::HashKey(key)))
                                   : KeyLock();
      const base::EpochGuard guard;
      if (!locked && key_locks_.enabled()) continue;
      const Version& version = versions_.Load();
      engine::WriteOp op{type, key, value};
      log::ValueRef reference;
      const bool separated = Separated(op);
      const bool may_add = !separated || !FullOfValues(*version.active);
      if (separated && may_add) QUIRE_RETURN_IF_ERROR(Separate(&op, &reference));
      base::SyncPoint("lsm.write.stored");
      added = may_add && version.active->table().Add(op, &lsn);
      if (!added || (separated && CountValue(*version.active, value.size()))) {
        full_generation = version.active->generation();
      }
    }
    if (!added) {
      QUIRE_RETURN_IF_ERROR(MakeRoomForWrite(full_generation));
      continue;
    }
    if (full_generation != 0) RotateEarly(full_generation, true);
    return Committed(key.size() + value.size(), lsn);
  }
}

// Before a value is stored: whoever finds it full waits until another one is active. So what is not
// durable, and what is overwritten and not collected, stays within bounds.
bool DbImpl::FullOfValues(const PooledMemTable& memory) const {
  return memory.value_bytes() >= kValueBytesFactor * options_.memtable_bytes;
}

bool DbImpl::CountValue(PooledMemTable& memory, uint64_t value_bytes) const {
  return memory.AddValueBytes(value_bytes, kValueBytesFactor * options_.memtable_bytes);
}

// The write is done, whatever comes of this: a failure meets the one that finds no room.
void DbImpl::RotateEarly(uint64_t full_generation, bool may_wait) {
  engine::WriteProgress progress;
  progress.may_wait = may_wait;
  const Status rotated =
      base::OrOutOfMemory([&] { return MakeRoomForWrite(full_generation, &progress); });
  if (!progress.waits) health_.LogFailure(rotated);
}

Status DbImpl::DeleteRange(Slice begin, Slice end) {
  // No key is empty, so the empty one and this one begin the same range.
  if (begin.empty()) begin = Slice("\0", 1);
  if (end < begin) {
    return Status(Code::kInvalidArgument, "the range's end lies before its begin");
  }
  const engine::WriteOp op{log::RecordType::kRangeDelete, begin, end};
  QUIRE_RETURN_IF_ERROR(CheckOp(op));
  if (begin == end) return Status();
  engine::WriteProgress progress;
  return WriteGroup({op}, false, &progress);
}

Status DbImpl::Write(const engine::WriteBatch& batch, engine::WriteProgress* progress) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<engine::WriteOp> ops,
                         engine::DecodeBatch(batch.bytes()));
  if (ops.empty()) return Status();
  for (const engine::WriteOp& op : ops) {
    QUIRE_RETURN_IF_ERROR(CheckOp(op));
    if (op.type == log::RecordType::kUpdate) {
      return Status(Code::kInvalidArgument, "an atomic batch takes no registered updates");
    }
  }
  return WriteGroup(ops, true, progress);
}

KeyLocks::Set DbImpl::LocksOf(const std::vector<engine::WriteOp>& ops) const {
  KeyLocks::Set set;
  if (!key_locks_.enabled()) return set;
  for (const engine::WriteOp& op : ops) {
    if (op.type == log::RecordType::kRangeDelete) return set.set();
    set.set(KeyLocks::IndexOf(base::HashKey(op.key)));
  }
  return set;
}

Status DbImpl::SeparateAll(const std::vector<engine::WriteOp>& ops, SeparatedGroup* group) {
  group->references.resize(ops.size());
  group->ops = ops;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!Separated(ops[i])) continue;
    QUIRE_RETURN_IF_ERROR(Separate(&group->ops[i], &group->references[i]));
    group->value_bytes += ops[i].value.size();
  }
  return Status();
}

// Whether the copies of its values take so long that nobody may wait for them at a guard.
bool DbImpl::MayHoldUp(const std::vector<engine::WriteOp>& ops) const {
  uint64_t bytes = 0;
  for (const engine::WriteOp& op : ops) bytes += Separated(op) ? op.value.size() : 0;
  return bytes >= kHoldUpBytes;
}

// `full_generation` is not 0: nothing was stored, since that MemTable refers to enough values.
Status DbImpl::StoreLarge(const std::vector<engine::WriteOp>& ops, LargeValues* large,
                          uint64_t* full_generation) {
  {
    const base::EpochGuard guard;
    const Version& version = versions_.Load();
    if (FullOfValues(*version.active)) {
      *full_generation = version.active->generation();
      return Status();
    }
  }
  large->protection.emplace(versions_.segments().Protect(values_->open_floor()));
  const Status stored = SeparateAll(ops, &large->group);
  base::SyncPoint("lsm.write.large");
  return stored;
}

Status DbImpl::TryGroup(const Version& version, const std::vector<engine::WriteOp>& ops,
                        bool atomic, GroupOutcome* outcome) {
  if (std::none_of(ops.begin(), ops.end(),
                   [this](const engine::WriteOp& op) { return Separated(op); })) {
    return TryInline(version, ops, 0, atomic, outcome);
  }
  if (FullOfValues(*version.active)) return Status();
  SeparatedGroup group;
  QUIRE_RETURN_IF_ERROR(SeparateAll(ops, &group));
  return TryInline(version, group.ops, group.value_bytes, atomic, outcome);
}

// `value_bytes`: of the values that `ops` refer to.
Status DbImpl::TryInline(const Version& version, const std::vector<engine::WriteOp>& ops,
                         uint64_t value_bytes, bool atomic, GroupOutcome* outcome) {
  if (atomic && MemTable::BatchBytes(ops, true) > record_bytes_max_) {
    return Status(Code::kInvalidArgument, "the batch takes " +
                                              std::to_string(MemTable::BatchBytes(ops, true)) +
                                              " bytes; a MemTable holds " +
                                              std::to_string(record_bytes_max_) +
                                              ": split it or raise memtable_bytes");
  }
  outcome->added = version.active->table().AddBatch(ops, atomic, &outcome->lsn);
  outcome->full = outcome->added && value_bytes != 0 && CountValue(*version.active, value_bytes);
  return Status();
}

Status DbImpl::WriteGroup(const std::vector<engine::WriteOp>& ops, bool atomic,
                          engine::WriteProgress* progress) {
  uint64_t lsn = 0;
  QUIRE_RETURN_IF_ERROR(GoOn(progress));
  QUIRE_RETURN_IF_ERROR(AddGroup(ops, atomic, progress, &lsn));
  return Committed(UserBytes(ops), lsn);
}

Status DbImpl::AddGroup(const std::vector<engine::WriteOp>& ops, bool atomic,
                        engine::WriteProgress* progress, uint64_t* lsn) {
  const bool apart = MayHoldUp(ops);
  LargeValues large;
  while (true) {
    GroupOutcome outcome;
    uint64_t generation = 0;
    if (apart && large.group.ops.empty()) {
      QUIRE_RETURN_IF_ERROR(StoreLarge(ops, &large, &generation));
    }
    if (generation == 0) {
      const bool locked = key_locks_.enabled();
      const KeyLockSet key_locks(key_locks_, LocksOf(ops));
      const base::EpochGuard guard;
      if (!locked && key_locks_.enabled()) continue;
      const Version& version = versions_.Load();
      QUIRE_RETURN_IF_ERROR(apart ? TryInline(version, large.group.ops, large.group.value_bytes,
                                              atomic, &outcome)
                                  : TryGroup(version, ops, atomic, &outcome));
      generation = version.active->generation();
    }
    if (!outcome.added) {
      QUIRE_RETURN_IF_ERROR(MakeRoomForWrite(generation, progress));
      continue;
    }
    large.protection.reset();  // what follows may wait
    if (outcome.full) RotateEarly(generation, progress->may_wait);
    *lsn = outcome.lsn;
    return Status();
  }
}

Status DbImpl::Committed(uint64_t user_bytes, uint64_t lsn) {
  counters_.Add(StorageCounter::kUserBytes, user_bytes);
  if (options_.wal != WalMode::kSync) return Status();
  return log_sync_.SyncWrite(lsn);
}

Status DbImpl::SyncLog() {
  return options_.wal == WalMode::kOff ? Flush() : log_sync_.SyncAll();
}

}  // namespace quire::lsm
