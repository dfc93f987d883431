// Gets of one key: staged here, of this rank, cached, from the memory and the tables of the storage
// group, by message.
#include <cstring>

#include "base/own_place.h"
#include "base/program_call.h"
#include "base/sync_point.h"
#include "kv/database/database_impl.h"
#include "kv/group/remote_get.h"
#include "kv/protocol/wire.h"

namespace quire::kv {

Status DatabaseImpl::Get(Slice key, const PlaceFunction& place_value) {
  QUIRE_RETURN_IF_ERROR(Admit(kOpen | kMayGet));
  QUIRE_RETURN_IF_ERROR(CheckSizes(key, {}));
  return base::GetIntoPlace(place_value, [&](const PlaceFunction& own_place) {
    return base::CallProgram([] { return std::string("the place function"); },
                             [&] { return GetValue(key, own_place); });
  });
}

Status DatabaseImpl::GetValue(Slice key, const PlaceFunction& value_place) {
  const Place place = Locate(key);
  PairCache::Ticket ticket;
  const Status near = GetWithoutMessage(place, key, value_place, &ticket);
  if (!MustAsk(place, near)) return near;
  if (InGroup(place.owner)) return GetInGroup(place, key, value_place, ticket);
  return GetByMessage(place, key, value_place, ticket);
}

Status DatabaseImpl::GetWithoutMessage(const Place& place, Slice key,
                                       const PlaceFunction& value_place,
                                       PairCache::Ticket* ticket) {
  if (place.owner == rank_) {
    counters_.Add(Counter::kGetsLocal);
    return store_->Get(key, place.hash, value_place);
  }
  if (place.owner < 0 || place.owner >= size_) [[unlikely]]
    return BadOwner(place.owner);
  const StagedRead staged = dispatcher_->staging().Find(place.owner, key, place.hash);
  switch (staged.state) {
    case StagedRead::State::kNone:
      break;
    case StagedRead::State::kDelete:
      return Status(Code::kNotFound);
    case StagedRead::State::kPut: {
      counters_.Add(Counter::kGetsStaged);
      char* const to = value_place(staged.value.size());
      if (to == nullptr) return Status(Code::kOutOfMemory, "no place for the value");
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
    const Status cached = remote_cache_->Get(key, place.hash, *ticket, value_place);
    if (cached.code() != Code::kNotFound) {
      counters_.Add(Counter::kRemoteCacheHits);
      return cached;
    }
  }
  if (direct_ == nullptr || !direct_->Reaches(place.owner)) return Status(Code::kBusy);
  const Status direct = direct_->Get(place.owner, key, value_place);
  counters_.Add(direct.code() == Code::kBusy ? Counter::kGetsDirectBusy : Counter::kGetsDirect);
  return direct;
}

Status DatabaseImpl::GetByMessage(const Place& place, Slice key, const PlaceFunction& value_place,
                                  const PairCache::Ticket& ticket) {
  std::string answer;
  const Status status =
      core_->exchange->Ask(place.owner, Channel(number_, Operation::kGet), {}, key, &answer);
  return TakeGetAnswer(place, key, status, answer, value_place, ticket);
}

// The owner tells what its memory has, or which tables to look into (SC17, section 2.7).
Status DatabaseImpl::GetInGroup(const Place& place, Slice key, const PlaceFunction& value_place,
                                const PairCache::Ticket& ticket) {
  std::string answer;
  const Status status =
      core_->exchange->Ask(place.owner, Channel(number_, Operation::kGetInGroup), {}, key, &answer);
  base::SyncPoint("kv.get.named");
  NamedTables tables;
  if (!status.ok() || !DecodeTablesAnswer(answer, &tables)) {
    return TakeGetAnswer(place, key, status, answer, value_place, ticket);
  }
  char* at = nullptr;
  size_t size = 0;
  const Status read = group_->Get(place.owner, tables, key, [&](size_t value_size) {
    size = value_size;
    return at = value_place(value_size);
  });
  if (read.code() == Code::kBusy) return GetByMessage(place, key, value_place, ticket);
  counters_.Add(Counter::kGetsInGroup);
  if (read.ok()) remote_cache_->Insert(key, Slice(at, size), place.hash, ticket);
  return read;
}

Status DatabaseImpl::TakeGetAnswer(const Place& place, Slice key, const Status& status,
                                   Slice answer, const PlaceFunction& value_place,
                                   const PairCache::Ticket& ticket) {
  counters_.Add(Counter::kGetsByMessage);
  base::SyncPoint("kv.get.answered");
  if (!status.ok()) return OwnerStatus(place.owner, status);
  QUIRE_ASSIGN_OR_RETURN(const Slice value, DecodeGetAnswer(answer));
  char* const to = value_place(value.size());
  if (to == nullptr) return Status(Code::kOutOfMemory, "no place for the value");
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
  const auto place_value = [&value](size_t size) {
    value.resize(size);
    return value.data();
  };
  status = GetWithoutMessage(place, key, place_value, &ticket);
  if (!MustAsk(place, status)) return NewReadyGet(std::move(status), std::move(value));
  RemoteGet asked;
  asked.core = core_;
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
