// Writes: checks, the MemTable, and the log's sync if the options ask for it.
#include "base/core/out_of_memory.h"
#include "base/hash/hash.h"
#include "base/threads/epoch.h"
#include "base/threads/sync_point.h"
#include "lsm/db/db_impl.h"

namespace quire::lsm {
namespace {

uint64_t UserBytes(const std::vector<engine::WriteOp>& ops) {
  uint64_t bytes = 0;
  for (const engine::WriteOp& op : ops) bytes += op.key.size() + op.value.size();
  return bytes;
}

}  // namespace

Status DbImpl::CheckWrite(Slice key, uint64_t value_size) const {
  if (!separator_.Fits(key, value_size)) return separator_.RefusalOf(key, value_size);
  return health_.refused() ? health_.WriteStatus() : Status();
}

Status DbImpl::CheckOp(const engine::WriteOp& op) const {
  QUIRE_RETURN_IF_ERROR(CheckWrite(op.key, op.value.size()));
  return op.type == log::RecordType::kRangeDelete ? separator_.CheckRange(op) : Status();
}

Status DbImpl::Put(const base::HashedKey& key, Slice value) {
  return WriteOne(log::RecordType::kPut, key, value);
}

Status DbImpl::Delete(const base::HashedKey& key) {
  return WriteOne(log::RecordType::kDelete, key, {});
}

Status DbImpl::WriteOne(log::RecordType type, const base::HashedKey& key, Slice value) {
  QUIRE_RETURN_IF_ERROR(CheckWrite(key.key, value.size()));
  if (value.size() >= kHoldUpBytes) {
    engine::WriteProgress progress;
    return WriteGroup({{type, key.key, value}}, false, &progress);
  }
  while (true) {
    uint64_t lsn = 0;
    uint64_t full_generation = 0;
    bool added = false;
    {
      // One guard from the storing of the value to the record that refers to it: a value segment is
      // judged dead only after a grace period.
      const bool locked = key_locks_.enabled();
      const KeyLock key_lock =
          locked ? KeyLock(key_locks_, KeyLocks::IndexOf(key.hash)) : KeyLock();
      const base::EpochGuard guard;
      if (!locked && key_locks_.enabled()) continue;
      const Version& version = versions_.Load();
      engine::WriteOp op{type, key.key, value};
      log::ValueRef reference;
      const bool separated = separator_.Separates(op);
      const bool may_add = !separated || !separator_.IsFull(*version.active);
      if (separated && may_add) QUIRE_RETURN_IF_ERROR(separator_.Separate(&op, &reference));
      base::SyncPoint("lsm.write.stored");
      added = may_add && version.active->table().Add(op, key.hash, &lsn);
      if (!added || (separated && separator_.Count(*version.active, value.size()))) {
        full_generation = version.active->generation();
      }
    }
    if (!added) {
      QUIRE_RETURN_IF_ERROR(room_.MakeRoom(full_generation));
      continue;
    }
    if (full_generation != 0) room_.RotateEarly(full_generation, true);
    return Committed(key.key.size() + value.size(), lsn);
  }
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

Status DbImpl::TryGroup(const Version& version, const std::vector<engine::WriteOp>& ops,
                        bool atomic, GroupOutcome* outcome) {
  if (!separator_.SeparatesAny(ops)) return TryInline(version, ops, 0, atomic, outcome);
  if (separator_.IsFull(*version.active)) return Status();
  ValueSeparator::Group group;
  QUIRE_RETURN_IF_ERROR(separator_.SeparateAll(ops, &group));
  return TryInline(version, group.ops, group.value_bytes, atomic, outcome);
}

// `value_bytes`: of the values that `ops` refer to.
Status DbImpl::TryInline(const Version& version, const std::vector<engine::WriteOp>& ops,
                         uint64_t value_bytes, bool atomic, GroupOutcome* outcome) {
  if (atomic && MemTable::BatchBytes(ops, true) > separator_.record_bytes_max()) {
    return Status(Code::kInvalidArgument,
                  "the batch takes " + std::to_string(MemTable::BatchBytes(ops, true)) +
                      " bytes; a MemTable holds " + std::to_string(separator_.record_bytes_max()) +
                      ": split it or raise memtable_bytes");
  }
  outcome->added = version.active->table().AddBatch(ops, atomic, &outcome->lsn);
  outcome->full =
      outcome->added && value_bytes != 0 && separator_.Count(*version.active, value_bytes);
  return Status();
}

Status DbImpl::WriteGroup(const std::vector<engine::WriteOp>& ops, bool atomic,
                          engine::WriteProgress* progress) {
  uint64_t lsn = 0;
  QUIRE_RETURN_IF_ERROR(room_.GoOn(progress));
  QUIRE_RETURN_IF_ERROR(AddGroup(ops, atomic, progress, &lsn));
  return Committed(UserBytes(ops), lsn);
}

Status DbImpl::AddGroup(const std::vector<engine::WriteOp>& ops, bool atomic,
                        engine::WriteProgress* progress, uint64_t* lsn) {
  const bool apart = separator_.MayHoldUp(ops);
  ValueSeparator::LargeValues large;
  while (true) {
    GroupOutcome outcome;
    uint64_t generation = 0;
    if (apart && large.group.ops.empty()) {
      QUIRE_RETURN_IF_ERROR(separator_.StoreLarge(ops, &large, &generation));
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
      QUIRE_RETURN_IF_ERROR(room_.MakeRoom(generation, progress));
      continue;
    }
    large.protection.reset();  // what follows may wait
    if (outcome.full) room_.RotateEarly(generation, progress->may_wait);
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
