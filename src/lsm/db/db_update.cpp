// Read-modify-write, and batches from other ranks that may contain it.
#include <utility>

#include "base/coding.h"
#include "base/epoch.h"
#include "base/hash.h"
#include "base/out_of_memory.h"
#include "lsm/db/db_impl.h"

namespace quire::lsm {
namespace {

// Writes of a batch from elsewhere go into the log in groups of about so much.
constexpr size_t kGroupOps = 64;
constexpr uint64_t kGroupBytes = 16 << 10;
// Index slots are asked for so many operations ahead.
constexpr size_t kUpdatesAhead = 16;

}  // namespace

// One update on its way: the function, local or by number, and buffers that are used again.
struct DbImpl::UpdateCall {
  const UpdateFn* local = nullptr;
  const WireUpdateFn* wire = nullptr;
  const WriteOp* fill = nullptr;  // instead of a function: applied where nothing is known
  uint32_t function = 0;
  Slice argument;
  WriteProgress* progress = nullptr;
  std::string present;  // a separated value that was read
  Slice present_slice;
  std::shared_ptr<const BaseLayer> base;  // to be asked, as nothing is known here
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

Status DbImpl::Update(Slice key, const UpdateFn& update, WriteProgress* progress) {
  key_locks_.Enable();
  QUIRE_RETURN_IF_ERROR(GoOn(progress));
  UpdateCall call;
  call.local = &update;
  call.progress = progress;
  QUIRE_RETURN_IF_ERROR(RunUpdate(key, call));
  return call.lsn == 0 ? Status() : Committed(call.user_bytes, call.lsn);
}

Status DbImpl::RunUpdate(Slice key, UpdateCall& call) {
  const Status checked = CheckWrite(key, 0);
  if (!checked.ok()) return call.Refuse(checked);
  call.base.reset();
  call.base_asked = false;
  while (true) {
    bool done = false;
    bool full = false;
    uint64_t generation = 0;
    if (call.base != nullptr) QUIRE_RETURN_IF_ERROR(AskBase(key, call));
    {
      const base::EpochGuard guard;
      const KeyLock key_lock(key_locks_, KeyLocks::IndexOf(base::HashKey(key)));
      const Version& version = *version_.load(std::memory_order_acquire);
      QUIRE_RETURN_IF_ERROR(TryUpdate(version, key, call, &done, &full));
      generation = version.active->generation();
    }
    if (full) RotateEarly(generation, call.progress->may_wait);
    if (done) return Status();
    if (call.base != nullptr) continue;
    QUIRE_RETURN_IF_ERROR(MakeRoom(generation, call.progress));
  }
}

// Under the key's lock, with a Version loaded after it was taken. Other writes of the key need the
// lock too, so what is newest in the Version stays newest; and a record is added only while the
// Version's MemTable is still the active one.
Status DbImpl::TryUpdate(const Version& version, Slice key, UpdateCall& call, bool* done,
                         bool* full) {
  Found found;
  QUIRE_RETURN_IF_ERROR(Lookup(version, key, base::HashKey(key), kMaxLsn, &found));
  call.lsn = 0;
  if (call.fill != nullptr) {
    *done = true;
    if (found.state != Found::State::kNowhere) return Status();
    return AddUpdated(version, *call.fill, call, done, full);
  }
  if (found.state == Found::State::kNowhere && version.base != nullptr && !call.base_asked) {
    call.base = version.base;
    return Status();
  }
  const Slice* present = nullptr;
  QUIRE_RETURN_IF_ERROR(ReadPresent(version, found, call, &present));
  if (!call.Ran(present)) {
    bool write = false;
    call.progress->updated.clear();
    const Status ran = call.Run(key, present, &write);
    if (!ran.ok()) return call.Refuse(ran);
    *done = true;
    if (!write) return Status();
  }
  QUIRE_RETURN_IF_ERROR(
      AddUpdated(version, {log::RecordType::kPut, key, call.progress->updated}, call, done, full));
  if (!*done) call.Remember(present);
  return Status();
}

// Outside of the guard and the key's lock: it may open files and replay logs. Where it goes
// meanwhile, all that it had is here.
Status DbImpl::AskBase(Slice key, UpdateCall& call) const {
  const std::shared_ptr<const BaseLayer> base = std::exchange(call.base, nullptr);
  const Status status = base->Get(key, [&call](size_t size) {
    call.base_value.resize(size);
    return call.base_value.data();
  });
  call.base_asked = status.ok() || status.code() == Code::kNotFound;
  call.base_has = status.ok();
  return call.base_asked || !HasBase() ? Status() : status;
}

// The value that an update sees; null: absent.
Status DbImpl::ReadPresent(const Version& version, const Found& found, UpdateCall& call,
                           const Slice** present) const {
  *present = &call.present_slice;
  const auto allocate = [&call](size_t size) {
    call.present.resize(size);
    return call.present.data();
  };
  switch (found.state) {
    case Found::State::kValue:
      call.present_slice = found.value;
      return Status();
    case Found::State::kDeleted:
      *present = nullptr;
      return Status();
    case Found::State::kValueRef:
      QUIRE_RETURN_IF_ERROR(Deliver(found, allocate));
      break;
    case Found::State::kNowhere:
      if (version.base == nullptr || !call.base_has) *present = nullptr;
      call.present_slice = call.base_value;
      return Status();
  }
  call.present_slice = call.present;
  return Status();
}

Status DbImpl::AddUpdated(const Version& version, WriteOp op, UpdateCall& call, bool* done,
                          bool* full) {
  const Status checked = CheckWrite(op.key, op.value.size());
  if (!checked.ok()) return call.Refuse(checked);
  const uint64_t value_bytes = op.value.size();
  log::ValueRef reference;
  const bool separated = Separated(op);
  const bool may_add = !separated || !FullOfValues(*version.active);
  if (separated && may_add) QUIRE_RETURN_IF_ERROR(Separate(&op, &reference));
  *done = may_add && version.active->table().Add(op, &call.lsn);
  *full = *done && separated && CountValue(*version.active, value_bytes);
  call.user_bytes = op.key.size() + value_bytes;
  return Status();
}

// Works off the operations of one batch from elsewhere, in order.
class DbImpl::Applier {
 public:
  Applier(DbImpl& db, const std::vector<WriteOp>& ops, const WireUpdateFn* update,
          WriteProgress* progress)
      : db_(db), ops_(ops), fills_(update == nullptr), progress_(*progress) {
    call_.wire = update;
    call_.progress = progress;
  }

  Status Run() {
    Status status = db_.GoOn(&progress_);
    while (status.ok() && progress_.over < ops_.size()) {
      status = base::OrOutOfMemory([this] { return RunNext(); });
      if (status.ok() || !std::exchange(call_.refused, false)) continue;
      // Its neighbours came by calls of their own, and have nothing to do with it.
      if (progress_.refused.ok()) progress_.refused = status;
      status = Status();
      Over(1);
    }
    // What was applied before a failure is as durable as if it had come by itself.
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
    const WriteOp& op = ops_[progress_.over];
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
    const MemTable& table = db_.version_.load(std::memory_order_acquire)->active->table();
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
    std::vector<WriteOp> group;
    uint64_t bytes = 0;
    uint64_t stored_bytes = 0;
    size_t next = progress_.over;
    while (next < ops_.size() && group.size() < kGroupOps && bytes < kGroupBytes) {
      const WriteOp& op = ops_[next];
      if (op.type == log::RecordType::kUpdate) break;
      const Status checked = db_.CheckOp(op);
      if (!checked.ok() && group.empty()) return call_.Refuse(checked);
      if (!checked.ok()) break;  // what comes before it goes first
      stored_bytes += db_.StoredBytes(op);
      if (!group.empty() && stored_bytes > db_.record_bytes_max_) break;
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
  const std::vector<WriteOp>& ops_;
  const bool fills_;
  WriteProgress& progress_;
  UpdateCall call_;
  uint64_t last_lsn_ = 0;
  uint64_t user_bytes_ = 0;
  size_t asked_for_ = 0;
};

Status DbImpl::Apply(Slice batch_bytes, const WireUpdateFn& update, WriteProgress* progress) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<WriteOp> ops, DecodeBatch(batch_bytes));
  if (update) key_locks_.Enable();
  return Applier(*this, ops, &update, progress).Run();
}

Status DbImpl::Fill(Slice batch_bytes, WriteProgress* progress) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<WriteOp> ops, DecodeBatch(batch_bytes));
  key_locks_.Enable();
  return Applier(*this, ops, nullptr, progress).Run();
}

}  // namespace quire::lsm
