// Lookups: MemTables newest first, then tables newest first, all of one Version.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/coding.h"
#include "base/epoch.h"
#include "base/hash.h"
#include "lsm/db_impl.h"
#include "lsm/run_iterator.h"
#include "lsm/sorted_view.h"
#include "lsm/user_iterator.h"

namespace quire::lsm {
namespace {

class DbSnapshot final : public Snapshot {
 public:
  DbSnapshot(SnapshotList& list, uint64_t lsn) : list_(list), lsn_(lsn) {}
  ~DbSnapshot() override { list_.Remove(lsn_); }
  uint64_t lsn() const override { return lsn_; }

 private:
  SnapshotList& list_;
  const uint64_t lsn_;
};

// Tables whose filters are asked for ahead of the answers.
constexpr size_t kTablesAhead = 32;

Found::State StateOf(log::RecordType type) {
  if (type == log::RecordType::kDelete) return Found::State::kDeleted;
  return type == log::RecordType::kValueRef ? Found::State::kValueRef : Found::State::kValue;
}

Found::State StateOf(Lookup::State state) {
  switch (state) {
    case Lookup::State::kAbsent: return Found::State::kNowhere;
    case Lookup::State::kValue: return Found::State::kValue;
    case Lookup::State::kValueRef: return Found::State::kValueRef;
    case Lookup::State::kDeleted: return Found::State::kDeleted;
  }
  return Found::State::kNowhere;
}

}  // namespace

bool DbImpl::LookupMemory(const Version& version, Slice key, uint64_t hash, uint64_t lsn,
                          Found* found) const {
  lsm::Lookup lookup = version.active->table().Get(key, hash, lsn);
  for (size_t i = 0; lookup.state == lsm::Lookup::State::kAbsent && i < version.immutables.size();
       ++i) {
    lookup = version.immutables[i]->table().Get(key, hash, lsn);
  }
  found->state = StateOf(lookup.state);
  found->value = lookup.value;
  return found->state != Found::State::kNowhere;
}

// A tombstone of a range in one run hides every older version, and so all that the runs behind it have.
Status DbImpl::LookupTables(const Version& version, Slice key, uint64_t hash, uint64_t lsn,
                            Found* found) const {
  const size_t run_count = version.runs.size();
  std::array<const table::Table*, kTablesAhead> tables;
  uint64_t skips = 0;
  uint64_t wrong = 0;
  Status status;
  for (size_t i = 0; i < run_count && found->state == Found::State::kNowhere; ++i) {
    if (i % kTablesAhead == 0) {
      const size_t end = std::min(run_count, i + kTablesAhead);
      for (size_t j = i; j < end; ++j) {
        tables[j % kTablesAhead] = version.runs[j]->Find(key);
        tables[j % kTablesAhead]->PrefetchFilter(hash);
      }
    }
    const table::Table& table = *tables[i % kTablesAhead];
    uint64_t hidden = 0;
    if (version.runs[i]->has_range_tombstones()) hidden = table.CoveringTombstone(key, lsn);
    if (!table.MayContain(hash)) {
      ++skips;
    } else {
      table::TableLookup lookup;
      status = table.Get(key, hash, lsn, &lookup);
      if (!status.ok()) break;
      if (lookup.state == table::TableLookup::State::kFound && lookup.lsn > hidden) {
        found->state = StateOf(lookup.type);
        found->value = lookup.value;
        break;
      }
      if (lookup.state == table::TableLookup::State::kAbsent) ++wrong;
    }
    if (hidden != 0) found->state = Found::State::kDeleted;
  }
  if (skips != 0) counters_.Add(Counter::kFilterSkips, skips);
  if (wrong != 0) counters_.Add(Counter::kFilterFalse, wrong);
  return status;
}

Status DbImpl::Lookup(const Version& version, Slice key, uint64_t hash, uint64_t lsn,
                      Found* found) const {
  if (LookupMemory(version, key, hash, lsn, found)) {
    counters_.Add(Counter::kMemoryHits, 1);
    return Status();
  }
  QUIRE_RETURN_IF_ERROR(LookupTables(version, key, hash, lsn, found));
  if (found->state != Found::State::kNowhere) counters_.Add(Counter::kTableHits, 1);
  return Status();
}

// A segment that is not there is damage: the key's presence was told by the reference to it.
Status DbImpl::ReadValue(const log::ValueRef& reference, const AllocateFn& allocate) const {
  const Status status = values_->Read(reference, allocate);
  if (status.code() != Code::kNotFound) return status;
  return Status(Code::kCorruption, directory_ + "/" + ValueSegmentName(reference.segment_id) +
                                       " is missing, though a value in it is referred to; "
                                       "restore the file from a copy or checkpoint");
}

Status DbImpl::Deliver(const Found& found, const AllocateFn& allocate) const {
  if (found.state == Found::State::kValueRef) {
    return ReadValue(base::LoadLe<log::ValueRef>(found.value.data()), allocate);
  }
  if (found.state != Found::State::kValue) return Status(Code::kNotFound);
  char* const to = allocate(found.value.size());
  if (to == nullptr) {
    return Status(Code::kOutOfMemory, "no memory for a value of " +
                                          std::to_string(found.value.size()) + " bytes");
  }
  if (!found.value.empty()) std::memcpy(to, found.value.data(), found.value.size());
  return Status();
}

Status DbImpl::Get(Slice key, const Snapshot* snapshot, const AllocateFn& allocate) const {
  if (key.empty() || key.size() > log::kKeyBytesMax) {
    return Status(Code::kInvalidArgument,
                  "a key of " + std::to_string(key.size()) + " bytes; keys have 1 to 65536");
  }
  const uint64_t hash = base::HashKey(key);
  const base::EpochGuard guard;
  const Version& version = *version_.load(std::memory_order_acquire);
  Found found;
  QUIRE_RETURN_IF_ERROR(
      Lookup(version, key, hash, snapshot == nullptr ? kMaxLsn : snapshot->lsn(), &found));
  return Deliver(found, allocate);
}

Status DbImpl::GetFromMemory(Slice key, const AllocateFn& allocate, bool* decided) const {
  const uint64_t hash = base::HashKey(key);
  const base::EpochGuard guard;
  const Version& version = *version_.load(std::memory_order_acquire);
  Found found;
  *decided = LookupMemory(version, key, hash, kMaxLsn, &found);
  return Deliver(found, allocate);
}

std::shared_ptr<const Version> DbImpl::PinVersion() const {
  const base::EpochGuard guard;
  return version_.load(std::memory_order_acquire)->shared_from_this();
}

std::unique_ptr<Snapshot> DbImpl::NewSnapshot() {
  const uint64_t lsn = snapshots_.Add([this] {
    const std::shared_ptr<const Version> version = PinVersion();
    return version->active->table().QuiescedLsn();
  });
  return std::make_unique<DbSnapshot>(snapshots_, lsn);
}

std::unique_ptr<Iterator> DbImpl::NewIterator(const IteratorOptions& options) {
  IteratorSources sources;
  sources.read_value = [this](const log::ValueRef& reference, const AllocateFn& allocate) {
    return ReadValue(reference, allocate);
  };
  {
    // Under one guard, so that no segment which the Version's MemTables refer to goes in between.
    const base::EpochGuard guard;
    sources.version = version_.load(std::memory_order_acquire)->shared_from_this();
    sources.young_segments =
        segments_.HandlesBetween(sources.version->segments_floor, values_->next_id());
  }
  const Version& version = *sources.version;
  const uint64_t now = version.active->table().QuiescedLsn();
  sources.snapshot = options.snapshot == nullptr ? now : options.snapshot->lsn();

  std::vector<std::shared_ptr<MemoryHandle>> memory = version.immutables;
  memory.insert(memory.begin(), version.active);
  for (const std::shared_ptr<MemoryHandle>& handle : memory) {
    if (handle->base_lsn() > sources.snapshot || handle->table().empty()) continue;
    // Either a quiesced position in this MemTable, or behind all of it.
    std::shared_ptr<const SortedView> view = handle->table().NewView(sources.snapshot);
    for (table::RangeTombstone& tombstone : view->RangeTombstones()) {
      sources.tombstones.push_back(std::move(tombstone));
    }
    sources.entries.push_back(view->NewIterator(true));
    sources.views.push_back(std::move(view));
  }
  for (const std::shared_ptr<const Run>& run : version.runs) {
    sources.entries.push_back(NewRunIterator(*run, true));
    if (!run->has_range_tombstones()) continue;
    for (const std::shared_ptr<TableHandle>& table : run->tables()) {
      const std::vector<table::RangeTombstone>& tombstones = table->table().range_tombstones();
      sources.tombstones.insert(sources.tombstones.end(), tombstones.begin(), tombstones.end());
    }
  }
  return NewUserIterator(std::move(sources), options);
}

}  // namespace quire::lsm
