// Gets that need no message: of what is staged here, of this rank, cached, in a neighbour's memory.
#include <cstring>

#include "base/own_buffer.h"
#include "base/program_call.h"
#include "base/sync_point.h"
#include "kv/database/bulk_outcome.h"
#include "kv/database/database_impl.h"
#include "kv/group/remote_gets.h"
#include "kv/protocol/pair_sizes.h"

namespace quire::kv {

Status DatabaseImpl::Get(Slice key, const BufferAllocator& allocate) {
  QUIRE_RETURN_IF_ERROR(admission_.Admit(Admission::kGet));
  QUIRE_RETURN_IF_ERROR(CheckSizes(key, {}));
  return base::GetInto(allocate, [&](const BufferAllocator& own) {
    return base::CallProgram([] { return std::string("the buffer allocator"); },
                             [&] { return GetValue(key, own); });
  });
}

Status DatabaseImpl::GetValue(Slice key, const BufferAllocator& allocate) {
  const OwnerFinder::Place place = owners_.Find(key);
  RemoteGets::Wanted wanted{key, place.owner, place.key.hash, {}};
  const Status near = GetWithoutMessage(place, key, allocate, &wanted.ticket);
  return MustAsk(place, near) ? remote_gets_->Get(wanted, allocate) : near;
}

Status DatabaseImpl::GetWithoutMessage(const OwnerFinder::Place& place, Slice key,
                                       const BufferAllocator& allocate, PairCache::Ticket* ticket) {
  if (owners_.IsHere(place.owner)) {
    counters_->Add(DatabaseCounter::kGetsLocal);
    return store_->Get(place.key, allocate);
  }
  if (!owners_.IsRank(place.owner)) [[unlikely]]
    return owners_.NoSuchOwner(place.owner);
  const StagedRead staged = dispatcher_->remote_memtable().Find(place.owner, key, place.key.hash);
  switch (staged.state) {
    case StagedRead::State::kNone:
      break;
    case StagedRead::State::kDelete:
      return Status(Code::kNotFound);
    case StagedRead::State::kPut: {
      counters_->Add(DatabaseCounter::kGetsStaged);
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
  PairCache& cache = remote_gets_->cache();
  if (cache.on()) {
    *ticket = cache.Look(place.key.hash);
    base::SyncPoint("kv.get.looked");
    const Status cached = cache.Get(key, place.key.hash, *ticket, allocate);
    if (cached.code() != Code::kNotFound) {
      counters_->Add(DatabaseCounter::kRemoteCacheHits);
      return cached;
    }
  }
  if (direct_ == nullptr || !direct_->Reaches(place.owner)) return Status(Code::kBusy);
  const Status direct = direct_->Get(place.owner, key, allocate);
  counters_->Add(direct.code() == Code::kBusy ? DatabaseCounter::kGetsDirectBusy
                                              : DatabaseCounter::kGetsDirect);
  return direct;
}

std::unique_ptr<PendingGet> DatabaseImpl::GetAsync(Slice key) {
  Status status = admission_.Admit(Admission::kGet);
  if (status.ok()) status = CheckSizes(key, {});
  std::string value;
  if (!status.ok()) return NewReadyGet(std::move(status), std::move(value));
  const OwnerFinder::Place place = owners_.Find(key);
  RemoteGets::Wanted wanted{key, place.owner, place.key.hash, {}};
  status = GetWithoutMessage(place, key, Into(&value), &wanted.ticket);
  if (!MustAsk(place, status)) return NewReadyGet(std::move(status), std::move(value));
  return remote_gets_->Begin(wanted);
}

Status DatabaseImpl::GetMany(const std::vector<Slice>& keys, std::vector<std::string>* values,
                             std::vector<bool>* found) {
  QUIRE_RETURN_IF_ERROR(admission_.Admit(Admission::kGet));
  values->assign(keys.size(), std::string());
  found->assign(keys.size(), false);
  std::vector<Status> statuses(keys.size());
  std::vector<RemoteGets::OneOfMany> far;
  for (size_t i = 0; i < keys.size(); ++i) {
    statuses[i] = CheckSizes(keys[i], {});
    if (!statuses[i].ok()) continue;
    const OwnerFinder::Place place = owners_.Find(keys[i]);
    RemoteGets::Wanted wanted{keys[i], place.owner, place.key.hash, {}};
    std::string* const value = &(*values)[i];
    statuses[i] = GetWithoutMessage(place, keys[i], Into(value), &wanted.ticket);
    if (MustAsk(place, statuses[i])) far.push_back({wanted, value, &statuses[i]});
  }
  remote_gets_->GetMany(&far);
  BulkOutcome outcome(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    (*found)[i] = statuses[i].ok();
    if (statuses[i].ok() || statuses[i].code() == Code::kNotFound) continue;
    (*values)[i].clear();  // what was read did not verify
    outcome.Add(statuses[i]);
  }
  return outcome.Take();
}

}  // namespace quire::kv
