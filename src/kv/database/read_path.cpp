#include "kv/database/read_path.h"

#include <cstring>

#include "base/core/own_buffer.h"
#include "base/core/program_call.h"
#include "base/threads/sync_point.h"
#include "kv/database/bulk_outcome.h"
#include "kv/protocol/pair_sizes.h"

namespace quire::kv {

RemoteGets::Wanted ReadPath::Find(Slice key) const {
  const OwnerFinder::Place place = parts_.owners.Find(key);
  return {place.key, place.owner, {}};
}

Status ReadPath::Get(Slice key, const BufferAllocator& allocate) {
  QUIRE_RETURN_IF_ERROR(CheckSizes(key, {}));
  return base::GetInto(allocate, [&](const BufferAllocator& own) {
    return base::CallProgram([] { return std::string("the buffer allocator"); },
                             [&] { return GetValue(key, own); });
  });
}

Status ReadPath::GetValue(Slice key, const BufferAllocator& allocate) {
  RemoteGets::Wanted wanted = Find(key);
  const Status near = GetWithoutMessage(&wanted, allocate);
  return MustAsk(wanted.owner, near) ? remote_gets_->Get(wanted, allocate) : near;
}

Status ReadPath::GetWithoutMessage(RemoteGets::Wanted* wanted, const BufferAllocator& allocate) {
  const int owner = wanted->owner;
  if (parts_.owners.IsHere(owner)) {
    parts_.counters.Add(DatabaseCounter::kGetsLocal);
    return parts_.store.Get(wanted->key, allocate);
  }
  if (!parts_.owners.IsRank(owner)) [[unlikely]]
    return parts_.owners.NoSuchOwner(owner);
  const StagedRead staged =
      dispatcher_->remote_memtable().Find(owner, wanted->key.key, wanted->key.hash);
  switch (staged.state) {
    case StagedRead::State::kNone:
      break;
    case StagedRead::State::kDelete:
      return Status(Code::kNotFound);
    case StagedRead::State::kPut: {
      parts_.counters.Add(DatabaseCounter::kGetsStaged);
      char* const to = allocate(staged.value.size());
      if (to == nullptr) return Status(Code::kOutOfMemory, "no memory for the value");
      if (!staged.value.empty()) std::memcpy(to, staged.value.data(), staged.value.size());
      return Status();
    }
    case StagedRead::State::kUpdate:
      // Only the owner knows the result of the function.
      QUIRE_RETURN_IF_ERROR(dispatcher_->Drain(owner));
      break;
  }
  PairCache& cache = remote_gets_->cache();
  if (cache.on()) {
    wanted->ticket = cache.Look(wanted->key.hash);
    base::SyncPoint("kv.get.looked");
    const Status cached = cache.Get(wanted->key.key, wanted->key.hash, wanted->ticket, allocate);
    if (cached.code() != Code::kNotFound) {
      parts_.counters.Add(DatabaseCounter::kRemoteCacheHits);
      return cached;
    }
  }
  if (direct_ == nullptr || !direct_->Reaches(owner)) return Status(Code::kBusy);
  const Status direct = direct_->Get(owner, wanted->key.key, allocate);
  parts_.counters.Add(direct.code() == Code::kBusy ? DatabaseCounter::kGetsDirectBusy
                                                   : DatabaseCounter::kGetsDirect);
  return direct;
}

std::unique_ptr<PendingGet> ReadPath::GetAsync(Slice key) {
  Status status = CheckSizes(key, {});
  std::string value;
  if (!status.ok()) return NewReadyGet(std::move(status), std::move(value));
  RemoteGets::Wanted wanted = Find(key);
  status = GetWithoutMessage(&wanted, Into(&value));
  if (!MustAsk(wanted.owner, status)) return NewReadyGet(std::move(status), std::move(value));
  return remote_gets_->Begin(wanted);
}

Status ReadPath::GetMany(const std::vector<Slice>& keys, std::vector<std::string>* values,
                         std::vector<bool>* found) {
  values->assign(keys.size(), std::string());
  found->assign(keys.size(), false);
  std::vector<Status> statuses(keys.size());
  std::vector<RemoteGets::OneOfMany> far;
  for (size_t i = 0; i < keys.size(); ++i) {
    statuses[i] = CheckSizes(keys[i], {});
    if (!statuses[i].ok()) continue;
    RemoteGets::Wanted wanted = Find(keys[i]);
    std::string* const value = &(*values)[i];
    statuses[i] = GetWithoutMessage(&wanted, Into(value));
    if (MustAsk(wanted.owner, statuses[i])) far.push_back({wanted, value, &statuses[i]});
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

void ReadPath::End() {
  direct_.reset();
  remote_gets_.reset();
}

}  // namespace quire::kv
