// Read-modify-write, and batches from other ranks that may contain it.
#include <utility>

#include "base/coding.h"
#include "base/epoch.h"
#include "base/hash.h"
#include "lsm/db_impl.h"

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
  std::string updated;
  std::string present;  // a separated value that was read
  Slice present_slice;
  std::shared_ptr<const BaseLayer> base;  // to be asked, as nothing is known here
  bool base_asked = false;                // its answer never changes
  bool base_has = false;
  std::string base_value;
  uint64_t lsn = 0;  // of what was written; 0: nothing was
  uint64_t user_bytes = 0;
  bool refused = false;  // it failed because it is wrong in itself
  // The function ran and there was no room for what it gave: what it was given.
  bool ran = false;
  bool ran_on_value = false;
  std::string ran_on;

  void Remember(const Slice* value) {
    ran = true;
    ran_on_value = value != nullptr;
    ran_on.assign(value == nullptr ? Slice() : *value);
  }
  // Whether `updated` is what the function gave for this value: it does not run once more then.
  bool Ran(const Slice* value) const {
    return ran && ran_on_value == (value != nullptr) && (value == nullptr || ran_on == *value);
  }

  Status Refuse(const Status& why) {
    refused = true;
    return why;
  }
  Status Run(Slice key, const Slice* value, bool* write) {
    if (local != nullptr) {
      *write = (*local)(key, value, &updated);
      return Status();
    }
    return (*wire)(function, argument, key, value, &updated, write);
  }
};

Status DbImpl::Update(Slice key, const UpdateFn& update) {
  key_locks_.Enable();
  UpdateCall call;
  call.local = &update;
  QUIRE_RETURN_IF_ERROR(RunUpdate(key, call));
  return call.lsn == 0 ? Status() : Committed(call.user_bytes, call.lsn);
}

Status DbImpl::RunUpdate(Slice key, UpdateCall& call) {
  const Status checked = CheckWrite(key, 0);
  if (!checked.ok()) return call.Refuse(checked);
  call.base.reset();
  call.base_asked = false;
  call.ran = false;
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
    if (full) RotateEarly(generation);
    if (done) return Status();
    if (call.base != nullptr) continue;
    QUIRE_RETURN_IF_ERROR(MakeRoom(generation));
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
    call.updated.clear();
    const Status ran = call.Run(key, present, &write);
    if (!ran.ok()) return call.Refuse(ran);
    *done = true;
    if (!write) return Status();
  }
  QUIRE_RETURN_IF_ERROR(
      AddUpdated(version, {log::RecordType::kPut, key, call.updated}, call, done, full));
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
  if (separated) QUIRE_RETURN_IF_ERROR(Separate(&op, &reference));
  *done = version.active->table().Add(op, &call.lsn);
  *full = *done && separated && CountValue(*version.active, value_bytes);
  call.user_bytes = op.key.size() + value_bytes;
  return Status();
}

// Works off the operations of one batch from elsewhere, in order.
class DbImpl::Applier {
 public:
  Applier(DbImpl& db, const std::vector<WriteOp>& ops, const WireUpdateFn* update,
          uint64_t* applied)
      : db_(db), ops_(ops), fills_(update == nullptr), applied_(applied) {
    call_.wire = update;
  }

  Status Run() {
    Status status;
    Status refused;  // the first operation that is wrong in itself
    size_t at = 0;
    while (status.ok() && at < ops_.size()) {
      status = fills_                                      ? RunOneFill(&at)
               : ops_[at].type == log::RecordType::kUpdate ? RunOneUpdate(&at)
                                                           : RunGroup(&at);
      if (status.ok() || !std::exchange(call_.refused, false)) continue;
      // Its neighbours came by calls of their own, and have nothing to do with it.
      if (refused.ok()) refused = status;
      status = Status();
      ++at;
    }
    // What was applied before a failure is as durable as if it had come by itself.
    if (last_lsn_ != 0) {
      const Status committed = db_.Committed(user_bytes_, last_lsn_);
      if (status.ok()) status = committed;
      if (!committed.ok()) *applied_ = 0;  // none is at its level
    }
    return status.ok() ? refused : status;
  }

 private:
  Status RunOneUpdate(size_t* at) {
    if (*at >= asked_for_) AskAhead(*at);
    const WriteOp& op = ops_[*at];
    if (!*call_.wire || op.value.size() < sizeof(uint32_t)) {
      return call_.Refuse(
          Status(Code::kInvalidArgument, "a batch with updates, and nothing that runs them"));
    }
    call_.function = base::LoadLe<uint32_t>(op.value.data());
    call_.argument = op.value.substr(sizeof(uint32_t));
    return RunCall(at);
  }

  Status RunOneFill(size_t* at) {
    if (*at >= asked_for_) AskAhead(*at);
    call_.fill = &ops_[*at];
    const log::RecordType type = call_.fill->type;
    if (type != log::RecordType::kPut && type != log::RecordType::kDelete) {
      return call_.Refuse(
          Status(Code::kInvalidArgument, "older pairs are filled in by puts and deletes alone"));
    }
    return RunCall(at);
  }

  Status RunCall(size_t* at) {
    QUIRE_RETURN_IF_ERROR(db_.RunUpdate(ops_[*at].key, call_));
    if (call_.lsn != 0) {
      last_lsn_ = call_.lsn;
      user_bytes_ += call_.user_bytes;
    }
    ++*applied_;
    ++*at;
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

  Status RunGroup(size_t* at) {
    std::vector<WriteOp> group;
    uint64_t bytes = 0;
    uint64_t stored_bytes = 0;
    size_t next = *at;
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
    QUIRE_RETURN_IF_ERROR(db_.AddGroup(group, false, &lsn));
    last_lsn_ = lsn;
    user_bytes_ += bytes;
    *applied_ += group.size();
    *at = next;
    return Status();
  }

  DbImpl& db_;
  const std::vector<WriteOp>& ops_;
  const bool fills_;
  uint64_t* const applied_;
  UpdateCall call_;
  uint64_t last_lsn_ = 0;
  uint64_t user_bytes_ = 0;
  size_t asked_for_ = 0;
};

Status DbImpl::Apply(Slice batch_bytes, const WireUpdateFn& update, uint64_t* applied) {
  *applied = 0;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<WriteOp> ops, DecodeBatch(batch_bytes));
  if (update) key_locks_.Enable();
  return Applier(*this, ops, &update, applied).Run();
}

Status DbImpl::Fill(Slice batch_bytes, uint64_t* applied) {
  *applied = 0;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<WriteOp> ops, DecodeBatch(batch_bytes));
  key_locks_.Enable();
  return Applier(*this, ops, nullptr, applied).Run();
}

}  // namespace quire::lsm
