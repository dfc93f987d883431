// Lookups: MemTables newest first, then tables newest first, all of one Version.
#include "base/threads/epoch.h"
#include "base/threads/sync_point.h"
#include "lsm/db/db_impl.h"
#include "lsm/version/run_lookup.h"
#include "lsm/version/user_iterator.h"

namespace quire::lsm {
namespace {

class DbSnapshot final : public engine::Snapshot {
 public:
  DbSnapshot(SnapshotList& list, uint64_t lsn) : list_(list), lsn_(lsn) {}
  ~DbSnapshot() override { list_.Remove(lsn_); }
  uint64_t lsn() const override { return lsn_; }

 private:
  SnapshotList& list_;
  const uint64_t lsn_;
};

}  // namespace

bool DbImpl::LookupMemory(const Version& version, const base::HashedKey& key, uint64_t lsn,
                          Found* found) const {
  table::LookupResult& result = *found;
  found->memory = &version.active;
  result = version.active->table().Get(key.key, key.hash, lsn);
  for (size_t i = 0; found->state == table::KeyState::kAbsent && i < version.immutables.size();
       ++i) {
    found->memory = &version.immutables[i];
    result = version.immutables[i]->table().Get(key.key, key.hash, lsn);
  }
  return found->state != table::KeyState::kAbsent;
}

Status DbImpl::LookupTables(const Version& version, const base::HashedKey& key, uint64_t lsn,
                            Found* found) const {
  FilterCounts counts;
  found->memory = nullptr;
  const Status status = LookupRuns(version.runs, key.key, key.hash, lsn, found, &counts);
  if (counts.skips != 0) counters_.Add(StorageCounter::kFilterSkips, counts.skips);
  if (counts.misses != 0) counters_.Add(StorageCounter::kFilterFalse, counts.misses);
  return status;
}

Status DbImpl::Lookup(const Version& version, const base::HashedKey& key, uint64_t lsn,
                      Found* found) const {
  if (LookupMemory(version, key, lsn, found)) {
    counters_.Add(StorageCounter::kMemoryHits, 1);
    return Status();
  }
  QUIRE_RETURN_IF_ERROR(LookupTables(version, key, lsn, found));
  if (found->state != table::KeyState::kAbsent) counters_.Add(StorageCounter::kTableHits, 1);
  return Status();
}

// Reads a separated value. A missing segment is damage: the reference shows that the key is
// present.
Status DbImpl::ReadValue(const log::ValueRef& reference, const BufferAllocator& allocate) const {
  const Status status = opened_.values->Read(reference, allocate);
  if (status.code() != Code::kNotFound) return status;
  return Status(Code::kCorruption, directory_ + "/" + ValueSegmentName(reference.segment_id) +
                                       " is missing, though a value in it is referred to; "
                                       "restore the file from a copy or checkpoint");
}

// The caller holds the guard of the lookup. `late` keeps the memory or the file of a large value
// until that is read. If a segment cannot be kept, its value is read at once.
Status DbImpl::Deliver(const Found& found, const BufferAllocator& allocate, LateValue* late) const {
  QUIRE_RETURN_IF_ERROR(resolver_.Resolve(found, allocate, late));
  if (!late->reference.has_value()) {
    if (late->there() && found.memory != nullptr) late->holder = *found.memory;
    return Status();
  }
  late->holder = versions_.segments().Handle(late->reference->segment_id);
  if (late->holder != nullptr) return Status();
  return ReadValue(*std::exchange(late->reference, std::nullopt), allocate);
}

Status DbImpl::Get(const base::HashedKey& key, const engine::Snapshot* snapshot,
                   const BufferAllocator& allocate) const {
  if (!log::IsKeySize(key.key.size())) return log::KeySizeError(key.key.size());
  while (true) {
    std::shared_ptr<const engine::BackingStore> base;
    const Status status = GetAboveBackingStore(key, snapshot, allocate, &base);
    if (base == nullptr) return status;
    // Outside of the guard, because it may open files and replay logs.
    const Status below = base->Get(key.key, allocate);
    if (below.ok() || below.code() == Code::kNotFound || HasBackingStore()) return below;
    // The base was detached meanwhile, because all its pairs are here.
  }
}

bool DbImpl::HasBackingStore() const {
  const base::EpochGuard guard;
  return versions_.Load().base != nullptr;
}

// *base: to be asked, as nothing is known here.
Status DbImpl::GetAboveBackingStore(const base::HashedKey& key, const engine::Snapshot* snapshot,
                                    const BufferAllocator& allocate,
                                    std::shared_ptr<const engine::BackingStore>* base) const {
  LateValue late;
  QUIRE_RETURN_IF_ERROR(FindAboveBackingStore(key, snapshot, allocate, base, &late));
  return resolver_.ResolveLate(late, allocate);
}

Status DbImpl::FindAboveBackingStore(const base::HashedKey& key, const engine::Snapshot* snapshot,
                                     const BufferAllocator& allocate,
                                     std::shared_ptr<const engine::BackingStore>* base,
                                     LateValue* late) const {
  const base::EpochGuard guard;
  const Version& version = versions_.Load();
  // Slots and filters are on their way from memory while the MemTables are looked into.
  version.active->table().Prefetch(key.hash);
  for (const auto& immutable : version.immutables) immutable->table().Prefetch(key.hash);
  for (const std::shared_ptr<const Run>& run : version.runs)
    run->Find(key.key)->PrefetchFilter(key.hash);
  Found found;
  QUIRE_RETURN_IF_ERROR(
      Lookup(version, key, snapshot == nullptr ? kMaxLsn : snapshot->lsn(), &found));
  if (found.state == table::KeyState::kAbsent && version.base != nullptr) {
    *base = version.base;
    return Status(Code::kNotFound);
  }
  return Deliver(found, allocate, late);
}

Status DbImpl::GetFromMemory(const base::HashedKey& key, const BufferAllocator& allocate,
                             bool* decided, engine::TablesPosition* tables) const {
  LateValue late;
  {
    const base::EpochGuard guard;
    const Version& version = versions_.Load();
    Found found;
    *decided = LookupMemory(version, key, kMaxLsn, &found);
    if (tables != nullptr) *tables = {opened_.store_id, version.edition, version.base != nullptr};
    QUIRE_RETURN_IF_ERROR(Deliver(found, allocate, &late));
  }
  return resolver_.ResolveLate(late, allocate);
}

void DbImpl::DetachBackingStore() {
  std::shared_ptr<const engine::BackingStore> base;
  {
    VersionSet::Change change(versions_);
    base = versions_.current()->base;
    std::shared_ptr<Version> version = versions_.Successor(change);
    version->base = nullptr;
    versions_.InstallLocked(std::move(version));
  }
  base::EpochSynchronize();  // what ends it may not run where Versions are reclaimed
}

std::unique_ptr<engine::Snapshot> DbImpl::NewSnapshot() {
  const uint64_t lsn = snapshots_.Add([this] {
    const std::shared_ptr<const Version> version = versions_.Pin();
    return version->active->table().QuiescedLsn();
  });
  return std::make_unique<DbSnapshot>(snapshots_, lsn);
}

std::unique_ptr<engine::Iterator> DbImpl::NewIterator(const engine::IteratorOptions& options) {
  IteratorSources sources;
  sources.values = {std::shared_ptr<const void>(), &resolver_};  // iterators go before this
  uint64_t now = PinSources(&sources);
  if (!opened_.pool->MayPin()) {
    // The writers need the MemTables: what they hold goes into tables, and those are read.
    sources.version = nullptr;
    sources.young_segments.clear();
    const Status flushed = Flush();
    if (!flushed.ok()) return NewFailedIterator(flushed);
    now = PinTables(&sources);
  }
  sources.snapshot = options.snapshot == nullptr ? now : options.snapshot->lsn();
  AddVersion(&sources);
  return NewUserIterator(std::move(sources), options);
}

// Returns the LSN up to which the Version's records are read. Under one guard, so that no segment
// goes in between to which they refer: those of records that are complete by then have their ids.
uint64_t DbImpl::PinSources(IteratorSources* sources) {
  const base::EpochGuard guard;
  sources->version = versions_.Load().shared_from_this();
  base::SyncPoint("lsm.iterator.pinned");
  const uint64_t now = sources->version->active->table().QuiescedLsn();
  sources->young_segments = versions_.segments().HandlesBetween(sources->version->segments_floor,
                                                                opened_.values->next_id());
  return now;
}

// The tables of the present Version, which hold every record below the LSN that is returned.
uint64_t DbImpl::PinTables(IteratorSources* sources) {
  static_cast<void>(PinSources(sources));
  const Version& version = *sources->version;
  const PooledMemTable& oldest =
      version.immutables.empty() ? *version.active : *version.immutables.back();
  const uint64_t end = oldest.base_lsn();
  sources->version = VersionSet::TablesOf(version);
  return end;
}

}  // namespace quire::lsm
