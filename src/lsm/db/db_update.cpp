// Read-modify-write, and batches from other ranks that may contain it.
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "base/threads/epoch.h"
#include "lsm/db/db_impl.h"

namespace quire::lsm {
namespace {

// Writes of a batch from elsewhere go into the log in groups of about so much.
constexpr size_t kGroupOps = 64;
constexpr uint64_t kGroupBytes = 16 << 10;
// Index slots are asked for so many operations ahead.
constexpr size_t kUpdatesAhead = 16;

}  // namespace

// An update under way: the function, local or by number, and buffers that are used again.
struct DbImpl::UpdateCall {
  const engine::UpdateFn* local = nullptr;
  const WireUpdateFn* wire = nullptr;
  const engine::WriteOp* fill = nullptr;  // instead of a function: applied if the key is unknown
  uint32_t function = 0;
  Slice argument;
  engine::WriteProgress* progress = nullptr;
  std::string present;  // a copy of the value that the function sees
  Slice present_slice;
  std::shared_ptr<const engine::BackingStore> base;  // to be asked, as nothing is known here
  bool base_asked = false;                // its answer never changes
  bool base_has = false;
  std::string base_value;
  uint64_t lsn = 0;  // of what was written; 0: nothing was
  uint64_t user_bytes = 0;
  bool refused = false;  // it failed because it is wrong in itself

  void Remember(const Slice* value) const {
    progress->ran = true;
    progress->ran_on_value = value != nullptr;
    progress->ran_on.assign(value == nullptr ? Slice() : *value);
  }
  // Whether `updated` is what the function gave for this value: it does not run once more then.
  bool Ran(const Slice* value) const {
    return progress->ran && progress->ran_on_value == (value != nullptr) &&
           (value == nullptr || progress->ran_on == *value);
  }

  BufferAllocator Place() { return Into(&present); }
  Status Refuse(const Status& why) {
    refused = true;
    return why;
  }
  Status Run(Slice key, const Slice* value, bool* write) {
    if (local != nullptr) {
      *write = (*local)(key, value, &progress->updated);
      return Status();
    }
    return (*wire)(function, argument, key, value, &progress->updated, write);
  }
};

Status DbImpl::Update(const base::HashedKey& key, const engine::UpdateFn& update,
                      engine::WriteProgress* progress) {
  key_locks_.Enable();
  QUIRE_RETURN_IF_ERROR(room_.GoOn(progress));
  UpdateCall call;
  call.local = &update;
  call.progress = progress;
  QUIRE_RETURN_IF_ERROR(RunUpdate(key, call));
  return call.lsn == 0 ? Status() : Committed(call.user_bytes, call.lsn);
}

Status DbImpl::RunUpdate(const base::HashedKey& key, UpdateCall& call) {
  const Status checked = CheckWrite(key.key, 0);
  if (!checked.ok()) return call.Refuse(checked);
  call.base.reset();
  call.base_asked = false;
  while (true) {
    UpdateOutcome outcome;
    if (call.base != nullptr) QUIRE_RETURN_IF_ERROR(AskBackingStore(key.key, call));
    {
      const KeyLock key_lock(key_locks_, KeyLocks::IndexOf(key.hash));
      QUIRE_RETURN_IF_ERROR(TryUpdate(key, call, &outcome));
    }
    if (outcome.full) room_.RotateEarly(outcome.generation, call.progress->may_wait);
    if (outcome.done) return Status();
    if (call.base != nullptr) continue;
    QUIRE_RETURN_IF_ERROR(room_.MakeRoom(outcome.generation, call.progress));
  }
}

// Called under the key's lock. Other writes of the key need it too, so the newest version stays the
// newest: the function runs, and a large value is stored, without a guard, for which others would
// wait.
Status DbImpl::TryUpdate(const base::HashedKey& key, UpdateCall& call, UpdateOutcome* outcome) {
  call.lsn = 0;
  const std::string* found = nullptr;
  LateValue late;
  QUIRE_RETURN_IF_ERROR(LookForUpdate(key, call, &found, &late, &outcome->done));
  if (outcome->done || call.base != nullptr) return Status();
  if (call.fill != nullptr) return AddUpdated(*call.fill, key.hash, call, outcome);
  QUIRE_RETURN_IF_ERROR(resolver_.ResolveLate(late, call.Place()));
  late = {};  // nothing is pinned while the function runs
  if (found != nullptr) call.present_slice = *found;
  const Slice* const present = found == nullptr ? nullptr : &call.present_slice;
  if (!call.Ran(present)) {
    bool write = false;
    call.progress->updated.clear();
    const Status ran = call.Run(key.key, present, &write);
    if (!ran.ok()) return call.Refuse(ran);
    outcome->done = !write;
    if (!write) return Status();
  }
  QUIRE_RETURN_IF_ERROR(AddUpdated({log::RecordType::kPut, key.key, call.progress->updated},
                                   key.hash, call, outcome));
  if (!outcome->done) call.Remember(present);
  return Status();
}

// Finds the place of the value that the function sees (null: it is absent), and whether the value
// must still be read. Finds nothing if the base must be asked first (call.base). `done`: the key is
// known, and the pair to be filled in is older.
Status DbImpl::LookForUpdate(const base::HashedKey& key, UpdateCall& call,
                             const std::string** present, LateValue* late, bool* done) const {
  const base::EpochGuard guard;
  const Version& version = versions_.Load();
  Found found;
  QUIRE_RETURN_IF_ERROR(Lookup(version, key, kMaxLsn, &found));
  const bool nowhere = found.state == table::KeyState::kAbsent;
  if (call.fill != nullptr) {
    *done = !nowhere;
    return Status();
  }
  if (nowhere) {
    if (version.base != nullptr && !call.base_asked) call.base = version.base;
    if (version.base != nullptr && call.base_has) *present = &call.base_value;
    return Status();
  }
  if (found.state == table::KeyState::kDeleted) return Status();
  *present = &call.present;
  return Deliver(found, call.Place(), late);
}

// Called outside of the guard and the key's lock, because it may open files and replay logs. If the
// base is detached meanwhile, this database contains all its pairs.
Status DbImpl::AskBackingStore(Slice key, UpdateCall& call) const {
  const std::shared_ptr<const engine::BackingStore> base = std::exchange(call.base, nullptr);
  const Status status = base->Get(key, [&call](size_t size) {
    call.base_value.resize(size);
    return call.base_value.data();
  });
  call.base_asked = status.ok() || status.code() == Code::kNotFound;
  call.base_has = status.ok();
  return call.base_asked || !HasBackingStore() ? Status() : status;
}

Status DbImpl::AddUpdated(engine::WriteOp op, uint64_t hash, UpdateCall& call,
                          UpdateOutcome* outcome) {
  const Status checked = CheckWrite(op.key, op.value.size());
  if (!checked.ok()) return call.Refuse(checked);
  call.user_bytes = op.key.size() + op.value.size();
  if (op.value.size() >= kHoldUpBytes && separator_.Separates(op)) {
    return AddLargeUpdated(op, call, outcome);
  }
  const base::EpochGuard guard;
  const Version& version = versions_.Load();
  outcome->generation = version.active->generation();
  const uint64_t value_bytes = op.value.size();
  log::ValueRef reference;
  const bool separated = separator_.Separates(op);
  const bool may_add = !separated || !separator_.IsFull(*version.active);
  if (separated && may_add) QUIRE_RETURN_IF_ERROR(separator_.Separate(&op, &reference));
  outcome->done = may_add && version.active->table().Add(op, hash, &call.lsn);
  outcome->full = outcome->done && separated && separator_.Count(*version.active, value_bytes);
  return Status();
}

Status DbImpl::AddLargeUpdated(const engine::WriteOp& op, UpdateCall& call,
                               UpdateOutcome* outcome) {
  ValueSeparator::LargeValues large;
  QUIRE_RETURN_IF_ERROR(separator_.StoreLarge({op}, &large, &outcome->generation));
  if (outcome->generation != 0) return Status();
  const base::EpochGuard guard;
  const Version& version = versions_.Load();
  outcome->generation = version.active->generation();
  GroupOutcome added;
  QUIRE_RETURN_IF_ERROR(
      TryInline(version, large.group.ops, large.group.value_bytes, false, &added));
  outcome->done = added.added;
  outcome->full = added.full;
  call.lsn = added.lsn;
  return Status();
}

// Works off the operations of one batch from elsewhere, in order.
class DbImpl::Applier {
 public:
  Applier(DbImpl& db, const std::vector<engine::WriteOp>& ops, const WireUpdateFn* update,
          engine::WriteProgress* progress)
      : db_(db), ops_(ops), fills_(update == nullptr), progress_(*progress) {
    call_.wire = update;
    call_.progress = progress;
  }

  Status Run() {
    Status status = db_.room_.GoOn(&progress_);
    while (status.ok() && progress_.over < ops_.size()) {
      status = base::OrOutOfMemory([this] { return RunNext(); });
      if (status.ok() || !std::exchange(call_.refused, false)) continue;
      // Its neighbours in the batch came by calls of their own, and are not concerned.
      if (progress_.refused.ok()) progress_.refused = status;
      status = Status();
      Over(1);
    }
    // Operations that were applied before a failure are as durable as if they had come alone.
    if (last_lsn_ != 0) {
      const Status committed = db_.Committed(user_bytes_, last_lsn_);
      if (!committed.ok()) {
        progress_.applied = 0;  // none is at its level
        const bool waits = std::exchange(progress_.waits, false);
        if (status.ok() || waits) status = committed;
      }
    }
    return status.ok() ? progress_.refused : status;
  }

 private:
  Status RunNext() {
    if (fills_) return RunOneFill();
    return ops_[progress_.over].type == log::RecordType::kUpdate ? RunOneUpdate() : RunGroup();
  }

  void Over(size_t count) {
    progress_.over += count;
    progress_.ran = false;
  }

  Status RunOneUpdate() {
    if (progress_.over >= asked_for_) AskAhead(progress_.over);
    const engine::WriteOp& op = ops_[progress_.over];
    if (!*call_.wire || op.value.size() < sizeof(uint32_t)) {
      return call_.Refuse(
          Status(Code::kInvalidArgument, "a batch with updates, and nothing that runs them"));
    }
    call_.function = base::LoadLe<uint32_t>(op.value.data());
    call_.argument = op.value.substr(sizeof(uint32_t));
    return RunCall();
  }

  Status RunOneFill() {
    if (progress_.over >= asked_for_) AskAhead(progress_.over);
    call_.fill = &ops_[progress_.over];
    const log::RecordType type = call_.fill->type;
    if (type != log::RecordType::kPut && type != log::RecordType::kDelete) {
      return call_.Refuse(
          Status(Code::kInvalidArgument, "older pairs are filled in by puts and deletes alone"));
    }
    return RunCall();
  }

  Status RunCall() {
    QUIRE_RETURN_IF_ERROR(db_.RunUpdate(ops_[progress_.over].key, call_));
    if (call_.lsn != 0) {
      last_lsn_ = call_.lsn;
      user_bytes_ += call_.user_bytes;
    }
    ++progress_.applied;
    Over(1);
    return Status();
  }

  // Brings what the next operations will touch into the cache: their slots in the index, all at
  // once, and then the records that these name.
  void AskAhead(size_t at) {
    const base::EpochGuard guard;
    const MemTable& table = db_.versions_.Load().active->table();
    asked_for_ = std::min(ops_.size(), at + kUpdatesAhead);
    const IndexSlot* slots[kUpdatesAhead];
    for (size_t i = at; i < asked_for_; ++i) {
      slots[i - at] = &table.slots()[base::HashKey(ops_[i].key) & (table.slot_count() - 1)];
      __builtin_prefetch(slots[i - at], 1);
    }
    for (size_t i = at; i < asked_for_; ++i) {
      const uint64_t word = slots[i - at]->load(std::memory_order_relaxed);
      if (word != 0) __builtin_prefetch(table.data() + uint64_t{static_cast<uint32_t>(word)} * 8);
    }
  }

  Status RunGroup() {
    std::vector<engine::WriteOp> group;
    uint64_t bytes = 0;
    uint64_t stored_bytes = 0;
    size_t next = progress_.over;
    while (next < ops_.size() && group.size() < kGroupOps && bytes < kGroupBytes) {
      const engine::WriteOp& op = ops_[next];
      if (op.type == log::RecordType::kUpdate) break;
      const Status checked = db_.CheckOp(op);
      if (!checked.ok() && group.empty()) return call_.Refuse(checked);
      if (!checked.ok()) break;  // what comes before it goes first
      stored_bytes += db_.separator_.StoredBytes(op);
      if (!group.empty() && stored_bytes > db_.separator_.record_bytes_max()) break;
      group.push_back(op);
      bytes += op.key.size() + op.value.size();
      ++next;
    }
    uint64_t lsn = 0;
    QUIRE_RETURN_IF_ERROR(db_.AddGroup(group, false, &progress_, &lsn));
    last_lsn_ = lsn;
    user_bytes_ += bytes;
    progress_.applied += group.size();
    Over(group.size());
    return Status();
  }

  DbImpl& db_;
  const std::vector<engine::WriteOp>& ops_;
  const bool fills_;
  engine::WriteProgress& progress_;
  UpdateCall call_;
  uint64_t last_lsn_ = 0;
  uint64_t user_bytes_ = 0;
  size_t asked_for_ = 0;
};

Status DbImpl::Apply(Slice batch_bytes, const WireUpdateFn& update,
                     engine::WriteProgress* progress) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<engine::WriteOp> ops, engine::DecodeBatch(batch_bytes));
  if (update) key_locks_.Enable();
  return Applier(*this, ops, &update, progress).Run();
}

Status DbImpl::Fill(Slice batch_bytes, engine::WriteProgress* progress) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<engine::WriteOp> ops, engine::DecodeBatch(batch_bytes));
  key_locks_.Enable();
  return Applier(*this, ops, nullptr, progress).Run();
}

}  // namespace quire::lsm
