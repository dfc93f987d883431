// Gets of one key: staged here, of this rank, cached, from the memory and the tables of the storage
// group, by message.
#include <cstring>

#include "base/own_buffer.h"
#include "base/program_call.h"
#include "base/sync_point.h"
#include "kv/database/database_impl.h"
#include "kv/group/remote_get.h"
#include "kv/protocol/wire.h"

namespace quire::kv {

Status DatabaseImpl::Get(Slice key, const BufferAllocator& allocate) {
  QUIRE_RETURN_IF_ERROR(Admit(kOpen | kMayGet));
  QUIRE_RETURN_IF_ERROR(CheckSizes(key, {}));
  return base::GetInto(allocate, [&](const BufferAllocator& own) {
    return base::CallProgram([] { return std::string("the buffer allocator"); },
                             [&] { return GetValue(key, own); });
  });
}

Status DatabaseImpl::GetValue(Slice key, const BufferAllocator& allocate) {
  const Place place = Locate(key);
  PairCache::Ticket ticket;
  const Status near = GetWithoutMessage(place, key, allocate, &ticket);
  if (!MustAsk(place, near)) return near;
  if (InGroup(place.owner)) return GetInGroup(place, key, allocate, ticket);
  return GetByMessage(place, key, allocate, ticket);
}

Status DatabaseImpl::GetWithoutMessage(const Place& place, Slice key,
                                       const BufferAllocator& allocate, PairCache::Ticket* ticket) {
  if (place.owner == rank_) {
    counters_.Add(DatabaseCounter::kGetsLocal);
    return store_->Get(key, place.hash, allocate);
  }
  if (place.owner < 0 || place.owner >= size_) [[unlikely]]
    return BadOwner(place.owner);
  const StagedRead staged = dispatcher_->remote_memtable().Find(place.owner, key, place.hash);
  switch (staged.state) {
    case StagedRead::State::kNone:
      break;
    case StagedRead::State::kDelete:
      return Status(Code::kNotFound);
    case StagedRead::State::kPut: {
      counters_.Add(DatabaseCounter::kGetsStaged);
      char* const to = allocate(staged.value.size());
      if (to == nullptr) return Status(Code::kOutOfMemory, "no memory for the value");
      if (!staged.value.empty()) std::memcpy(to, staged.value.data(), staged.value.size());
      return Status();
    }
    case StagedRead::State::kUpdate:
      // Only the owner can tell what the function makes of the value.
      QUIRE_RETURN_IF_ERROR(dispatcher_->Drain(place.owner));
      break;
  }
  if (remote_cache_->on()) {
    *ticket = remote_cache_->Look(place.hash);
    base::SyncPoint("kv.get.looked");
    const Status cached = remote_cache_->Get(key, place.hash, *ticket, allocate);
    if (cached.code() != Code::kNotFound) {
      counters_.Add(DatabaseCounter::kRemoteCacheHits);
      return cached;
    }
  }
  if (direct_ == nullptr || !direct_->Reaches(place.owner)) return Status(Code::kBusy);
  const Status direct = direct_->Get(place.owner, key, allocate);
  counters_.Add(direct.code() == Code::kBusy ? DatabaseCounter::kGetsDirectBusy
                                             : DatabaseCounter::kGetsDirect);
  return direct;
}

Status DatabaseImpl::GetByMessage(const Place& place, Slice key, const BufferAllocator& allocate,
                                  const PairCache::Ticket& ticket) {
  std::string answer;
  const Status status =
      context_->exchange->Ask(place.owner, Channel(number_, WireOperation::kGet), {}, key, &answer);
  return TakeGetAnswer(place, key, status, answer, allocate, ticket);
}

// The owner tells what its memory has, or which tables to look into (SC17, section 2.7).
Status DatabaseImpl::GetInGroup(const Place& place, Slice key, const BufferAllocator& allocate,
                                const PairCache::Ticket& ticket) {
  std::string answer;
  const Status status = context_->exchange->Ask(
      place.owner, Channel(number_, WireOperation::kGetInGroup), {}, key, &answer);
  base::SyncPoint("kv.get.named");
  NamedTables tables;
  if (!status.ok() || !DecodeTablesAnswer(answer, &tables)) {
    return TakeGetAnswer(place, key, status, answer, allocate, ticket);
  }
  char* at = nullptr;
  size_t size = 0;
  const Status read = group_->Get(place.owner, tables, key, [&](size_t value_size) {
    size = value_size;
    return at = allocate(value_size);
  });
  if (read.code() == Code::kBusy) return GetByMessage(place, key, allocate, ticket);
  counters_.Add(DatabaseCounter::kGetsInGroup);
  if (read.ok()) remote_cache_->Insert(key, Slice(at, size), place.hash, ticket);
  return read;
}

Status DatabaseImpl::TakeGetAnswer(const Place& place, Slice key, const Status& status,
                                   Slice answer, const BufferAllocator& allocate,
                                   const PairCache::Ticket& ticket) {
  counters_.Add(DatabaseCounter::kGetsByMessage);
  base::SyncPoint("kv.get.answered");
  if (!status.ok()) return OwnerStatus(place.owner, status);
  QUIRE_ASSIGN_OR_RETURN(const Slice value, DecodeGetAnswer(answer));
  char* const to = allocate(value.size());
  if (to == nullptr) return Status(Code::kOutOfMemory, "no memory for the value");
  if (!value.empty()) std::memcpy(to, value.data(), value.size());
  remote_cache_->Insert(key, value, place.hash, ticket);
  return Status();
}

std::unique_ptr<PendingGet> DatabaseImpl::GetAsync(Slice key) {
  Status status = Admit(kOpen | kMayGet);
  if (status.ok()) status = CheckSizes(key, {});
  std::string value;
  if (!status.ok()) return NewReadyGet(std::move(status), std::move(value));
  const Place place = Locate(key);
  PairCache::Ticket ticket;
  status = GetWithoutMessage(place, key, Into(&value), &ticket);
  if (!MustAsk(place, status)) return NewReadyGet(std::move(status), std::move(value));
  RemoteGet asked;
  asked.context = context_;
  asked.database_number = number_;
  asked.owner = place.owner;
  asked.key = std::string(key);
  asked.hash = place.hash;
  asked.cache = remote_cache_;
  asked.ticket = ticket;
  asked.counters = shared_counters_;
  // The owner may have closed by the time at which it would be asked for the value.
  if (group_ != nullptr && group_->Sees(place.owner)) asked.group = group_;
  return NewRemoteGet(std::move(asked));
}

}  // namespace quire::kv
