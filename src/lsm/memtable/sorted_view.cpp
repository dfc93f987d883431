#include "lsm/memtable/sorted_view.h"

#include <algorithm>
#include <utility>

#include "base/hash/hash.h"
#include "lsm/memtable/memtable.h"
#include "lsm/memtable/memtable_views.h"

namespace quire::lsm {
namespace {

using Runs = std::vector<std::shared_ptr<const SortedKeys>>;

constexpr ptrdiff_t kEntriesAhead = 8;  // entries whose cache misses overlap
constexpr ptrdiff_t kFirstAhead = 4;  // of them, those that a seek asks for: a short scan needs few
constexpr size_t kSlotsAhead = 16;
constexpr size_t kSmallRun = 1024;  // merged at once: a run fewer to compare is worth it

uint32_t PrevOf(const char* record) {
  return log::HeaderAt(record)->prev.load(std::memory_order_acquire);
}

// The data that a view and its iterators read.
struct Scope {
  const MemTable* table;
  uint64_t end;  // versions below this offset are in the view

  const char* At(uint32_t record) const { return table->data() + uint64_t{record} * 8; }
  // The newest version in the view of the key in `slot`; 0: none.
  uint32_t Newest(uint32_t slot) const {
    return SkipNewer(static_cast<uint32_t>(table->slots()[slot].load(std::memory_order_acquire)));
  }
  // The newest in the view, from `record` on towards older ones.
  uint32_t SkipNewer(uint32_t record) const {
    while (record != 0 && uint64_t{record} * 8 >= end) record = PrevOf(At(record));
    return record;
  }
};

// A place in each run, and the key in order among them. While walking forward the other runs stand
// at their first key behind the present one, while walking back at their last key before it.
class KeyCursor {
 public:
  KeyCursor(const Scope& scope, const Runs& runs) : scope_(scope) {
    for (const auto& run : runs) places_.push_back({run.get(), -1, {}});
  }

  bool Valid() const { return current_ != nullptr; }
  uint32_t slot() const { return At(*current_).slot; }
  Slice key() const { return current_->key; }

  void SeekToFirst() {
    Start(true, [](const SortedKeys&) { return 0; });
  }
  void SeekToLast() {
    Start(false, [](const SortedKeys& run) { return std::ssize(run.entries) - 1; });
  }
  void Seek(Slice key) {
    Start(true, [&](const SortedKeys& run) { return LowerBound(run, key); });
  }
  void SeekBefore(Slice key) {
    Start(false, [&](const SortedKeys& run) { return LowerBound(run, key) - 1; });
  }
  void Next() {
    if (forward_) {
      Move(*current_, 1);
    } else {
      forward_ = true;
      for (Place& place : places_) Move(place, 1);
    }
    Choose();
  }
  void Prev() {
    if (!forward_) {
      Move(*current_, -1);
    } else {
      forward_ = false;
      for (Place& place : places_) Move(place, -1);
    }
    Choose();
  }

 private:
  struct Place {
    const SortedKeys* run;
    ptrdiff_t index;  // -1 and the run's size: beyond an end
    Slice key;
  };

  static bool Inside(const Place& place) {
    return place.index >= 0 && place.index < std::ssize(place.run->entries);
  }
  static const SortedEntry& At(const Place& place) {
    return place.run->entries[static_cast<size_t>(place.index)];
  }
  ptrdiff_t LowerBound(const SortedKeys& run, Slice key) const {
    return static_cast<ptrdiff_t>(run.LowerBound(scope_.table->data(), key));
  }

  template <typename Index>
  void Start(bool forward, Index index) {
    forward_ = forward;
    for (Place& place : places_) {
      place.index = index(*place.run);
      for (ptrdiff_t ahead = 0; ahead < kFirstAhead; ++ahead) Ask(place, forward ? ahead : -ahead);
    }
    for (Place& place : places_) Move(place, 0);
    Choose();
  }

  void Move(Place& place, ptrdiff_t step) {
    place.index += step;
    if (!Inside(place)) return;
    place.key = KeyOf(scope_.table->data(), At(place));
    if (step != 0) Ask(place, step * kEntriesAhead);
  }

  // Asks the processor's cache for what the entry `distance` from the present one leads to.
  void Ask(const Place& place, ptrdiff_t distance) const {
    const ptrdiff_t index = place.index + distance;
    if (index < 0 || index >= std::ssize(place.run->entries)) return;
    const SortedEntry& entry = place.run->entries[static_cast<size_t>(index)];
    __builtin_prefetch(&scope_.table->slots()[entry.slot]);
    const char* const record = scope_.At(entry.record);
    __builtin_prefetch(record);
    __builtin_prefetch(record + 64);
    if (distance >= kEntriesAhead || distance <= -kEntriesAhead) __builtin_prefetch(record + 128);
  }

  void Choose() {
    current_ = nullptr;
    for (Place& place : places_) {
      if (!Inside(place)) continue;
      if (current_ == nullptr || (place.key < current_->key) == forward_) current_ = &place;
    }
  }

  Scope scope_;
  std::vector<Place> places_;
  Place* current_ = nullptr;
  bool forward_ = true;
};

class ViewIterator : public table::EntryIterator {
 public:
  ViewIterator(const Scope& scope, const Runs& runs, bool newest_only)
      : scope_(scope), runs_(runs), newest_only_(newest_only), keys_(scope, runs_) {}

  void SeekToFirst() override {
    keys_.SeekToFirst();
    LoadForward();
  }
  void SeekToLast() override {
    keys_.SeekToLast();
    LoadBackward();
  }
  void Seek(Slice key) override {
    keys_.Seek(key);
    LoadForward();
  }
  void SeekBefore(Slice key) override {
    keys_.SeekBefore(key);
    LoadBackward();
  }
  void Next() override {
    if (++version_ < versions_.size()) return ShowVersion();
    keys_.Next();
    LoadForward();
  }
  void Prev() override {
    if (version_-- > 0) return ShowVersion();
    keys_.Prev();
    LoadBackward();
  }
  Status status() const override { return Status(); }

 private:
  // Both skip keys that came to the MemTable after the view.
  void LoadForward() {
    for (LoadVersions(); versions_.empty() && keys_.Valid(); LoadVersions()) keys_.Next();
    version_ = 0;
    ShowVersion();
  }
  void LoadBackward() {
    for (LoadVersions(); versions_.empty() && keys_.Valid(); LoadVersions()) keys_.Prev();
    version_ = versions_.empty() ? 0 : versions_.size() - 1;
    ShowVersion();
  }
  void LoadVersions() {
    versions_.clear();
    if (!keys_.Valid()) return;
    uint32_t record = scope_.Newest(keys_.slot());
    while (record != 0) {
      versions_.push_back(record);
      if (newest_only_) return;
      record = PrevOf(scope_.At(record));
    }
  }
  void ShowVersion() {
    if (versions_.empty()) return StandOn(nullptr);
    const uint32_t version = versions_[version_];
    const char* const record = scope_.At(version);
    shown_.key = keys_.key();
    shown_.value = log::ValueOf(record);
    shown_.lsn = scope_.table->base_lsn() + uint64_t{version} * 8;
    shown_.type = log::HeaderAt(record)->type;
    StandOn(&shown_);
  }

  Scope scope_;
  Runs runs_;  // its own reference: the view may go first
  bool newest_only_;
  KeyCursor keys_;
  std::vector<uint32_t> versions_;  // of the present key, newest first
  size_t version_ = 0;
  table::Entry shown_;
};

class View : public SortedView {
 public:
  // `exact`: every key in the runs has a version in the view.
  View(const Scope& scope, Runs runs, bool exact)
      : scope_(scope), runs_(std::move(runs)), exact_(exact) {}

  std::unique_ptr<table::EntryIterator> NewIterator(bool newest_only) const override {
    return std::make_unique<ViewIterator>(scope_, runs_, newest_only);
  }

  std::vector<table::RangeTombstone> RangeTombstones() const override {
    std::vector<table::RangeTombstone> tombstones;
    const auto& head = scope_.table->index().range_delete_head;
    uint32_t record = scope_.SkipNewer(head.load(std::memory_order_acquire));
    for (; record != 0; record = PrevOf(scope_.At(record))) {
      const char* at = scope_.At(record);
      tombstones.push_back({std::string(log::KeyOf(at)), std::string(log::ValueOf(at)),
                            scope_.table->base_lsn() + uint64_t{record} * 8});
    }
    return tombstones;
  }

  uint64_t key_count() const override {
    uint64_t count = 0;
    for (const auto& run : runs_) {
      if (exact_) {
        count += run->entries.size();
        continue;
      }
      for (const SortedEntry& entry : run->entries) count += scope_.Newest(entry.slot) != 0;
    }
    return count;
  }

 private:
  Scope scope_;
  Runs runs_;
  bool exact_;
};

// Returns every key with a version in the scope, by a walk over the index.
std::vector<SortedEntry> CollectFromSlots(const Scope& scope) {
  const IndexSlot* const slots = scope.table->slots();
  const uint64_t slot_count = scope.table->slot_count();
  std::vector<SortedEntry> entries(std::min(scope.table->key_count(), slot_count) + 1);
  size_t count = 0;
  for (uint64_t slot = 0; slot < slot_count; ++slot) {
    auto record = static_cast<uint32_t>(slots[slot].load(std::memory_order_acquire));
    if (uint64_t{record} * 8 >= scope.end) [[unlikely]]
      record = scope.SkipNewer(record);
    // Written in any case, kept if it is one: whether a slot is free cannot be predicted.
    if (count == entries.size()) entries.resize(2 * count);
    entries[count] = {0, record, static_cast<uint32_t>(slot)};
    count += record != 0;
  }
  entries.resize(count);
  return entries;
}

// The slot of the key whose first record is `record`.
uint32_t FindSlot(const Scope& scope, uint64_t hash, uint32_t record) {
  const uint64_t mask = scope.table->slot_count() - 1;
  for (uint64_t at = hash & mask;; at = (at + 1) & mask) {
    const uint64_t word = scope.table->slots()[at].load(std::memory_order_acquire);
    const auto newest = static_cast<uint32_t>(word);
    if (((word ^ hash) >> 32) != 0) continue;
    if (newest == record || log::KeyOf(scope.At(newest)) == log::KeyOf(scope.At(record))) {
      return static_cast<uint32_t>(at);
    }
  }
}

// Returns every key whose first version lies in [begin, scope.end), by a walk over the log: the
// keys of records without an older version, once everything below the end is complete.
std::vector<SortedEntry> CollectFromLog(const Scope& scope, uint64_t begin) {
  std::vector<SortedEntry> entries;
  std::vector<uint64_t> hashes;
  const char* const data = scope.table->data();
  for (uint64_t at = begin; at < scope.end; at += log::SizeOf(data + at)) {
    const log::RecordHeader& header = *log::HeaderAt(data + at);
    if (header.type == log::RecordType::kRangeDelete ||
        header.type == log::RecordType::kBatchBegin || PrevOf(data + at) != 0) {
      continue;
    }
    entries.push_back({0, static_cast<uint32_t>(at / 8), 0});
    hashes.push_back(base::HashKey(log::KeyOf(data + at)));
  }
  const uint64_t mask = scope.table->slot_count() - 1;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i + kSlotsAhead < entries.size()) {
      __builtin_prefetch(&scope.table->slots()[hashes[i + kSlotsAhead] & mask]);
    }
    entries[i].slot = FindSlot(scope, hashes[i], entries[i].record);
  }
  return entries;
}

// Returns every key whose first version lies in [begin, scope.end).
std::vector<SortedEntry> CollectKeys(const Scope& scope, uint64_t begin) {
  // The index is quicker to walk than a long log, and the log of a dead process has holes.
  const bool first = begin == log::kSegmentHeaderBytes;
  const bool long_log = scope.end - begin >= scope.table->slot_count() * sizeof(IndexSlot);
  if (first && (long_log || scope.table->adopted())) return CollectFromSlots(scope);
  return CollectFromLog(scope, begin);
}

// Adds a run and merges until each is at least twice as large as the next.
void AddRun(const char* data, SortedKeys run, Runs* runs) {
  if (run.entries.empty()) return;
  runs->push_back(std::make_shared<const SortedKeys>(std::move(run)));
  while (runs->size() > 1) {
    const SortedKeys& last = *runs->back();
    const SortedKeys& before = *(*runs)[runs->size() - 2];
    if (before.entries.size() >= 2 * last.entries.size() && before.entries.size() > kSmallRun) {
      return;
    }
    auto merged = std::make_shared<const SortedKeys>(MergeRuns(data, before, last));
    runs->pop_back();
    runs->back() = std::move(merged);
  }
}

}  // namespace

std::shared_ptr<const SortedView> MemTable::NewView(uint64_t lsn) {
  const std::lock_guard<std::mutex> lock(views_->mutex);
  const uint64_t tail = log::kSegmentHeaderBytes + data_bytes();
  uint64_t end = log::kSegmentHeaderBytes;
  if (lsn >= base_lsn_) {
    const uint64_t limit = lsn - base_lsn_;
    end = limit >= tail ? log::Quiesce(index_->tail) : std::max(end, limit + 1);
  }
  if (end > views_->covered_end) {
    // Everything below the end of what runs cover must be complete. A QuiescedLsn() gives such an
    // end, a multiple of 8.
    const uint64_t covered_end = end % 8 == 0 ? end : log::Quiesce(index_->tail);
    // Runs and their end change together, without an allocation: a run that stayed behind a failed
    // merge would give its keys twice, since the next view collects them again.
    Runs runs = views_->runs;
    AddRun(data_, MakeRun(data_, CollectKeys({this, covered_end}, views_->covered_end)), &runs);
    views_->runs.swap(runs);
    views_->covered_end = covered_end;
  }
  return std::make_shared<View>(Scope{this, end}, views_->runs, end >= views_->covered_end);
}

}  // namespace quire::lsm
