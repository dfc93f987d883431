#include "lsm/version/user_iterator.h"

#include <string>
#include <utility>

#include "base/text/coding.h"
#include "lsm/memtable/sorted_view.h"
#include "lsm/version/run_iterator.h"
#include "table/block.h"
#include "table/tombstone_set.h"

namespace quire::lsm {
namespace {

// Going forward the merge stands on the entry that is shown; going backward it has passed it, and
// the entry is kept in key_, kept_type_ and kept_value_.
class UserIterator final : public engine::Iterator {
 public:
  UserIterator(IteratorSources sources, const engine::IteratorOptions& options)
      : sources_(std::move(sources)),
        tombstones_(sources_.tombstones),
        lower_bound_(options.lower_bound),
        upper_bound_(options.upper_bound),
        merge_(std::move(sources_.entries), 0) {}

  bool Valid() const override { return valid_; }
  void SeekToFirst() override { Seek(lower_bound_); }
  void SeekToLast() override;
  void Seek(Slice key) override;
  void SeekForPrev(Slice key) override;
  void Next() override;
  void Prev() override;
  Slice key() const override { return key_; }
  Slice value() override;
  Status status() const override { return value_status_.ok() ? merge_.status() : value_status_; }

 private:
  bool BeyondUpper(Slice key) const { return !upper_bound_.empty() && key >= Slice(upper_bound_); }
  bool Hidden(Slice key, log::RecordType type, uint64_t lsn) const {
    return type == log::RecordType::kDelete ||
           (!tombstones_.empty() && tombstones_.Covering(key, sources_.snapshot) > lsn);
  }
  bool SameKey(Slice key) const {
    return key.size() == key_.size() && table::SameBytes(key.data(), key_.data(), key.size());
  }
  void KeepKey(Slice key) {
    key_.resize(key.size());
    table::CopyBytes(key_.data(), key.data(), key.size());
  }
  void Start(bool forward);
  void SeekBefore(Slice key);
  void FindForward(bool skip_key);
  void FindBackward();
  bool KeepNewest(uint64_t* lsn);
  Slice ReadSeparated(Slice reference);

  IteratorSources sources_;  // before merge_, whose sources it keeps alive
  const table::TombstoneSet tombstones_;
  const std::string lower_bound_;
  const std::string upper_bound_;
  table::MergingIterator merge_;

  bool valid_ = false;
  bool forward_ = true;
  std::string key_;
  log::RecordType kept_type_ = log::RecordType::kPut;
  std::string kept_value_;
  bool value_read_ = false;
  std::string separated_value_;
  Status value_status_;
};

void UserIterator::Start(bool forward) {
  forward_ = forward;
  valid_ = false;
  value_status_ = Status();
}

void UserIterator::Seek(Slice key) {
  Start(true);
  const Slice from = std::max(key, Slice(lower_bound_));
  if (from.empty()) {
    merge_.SeekToFirst();
  } else {
    merge_.Seek(from);
  }
  FindForward(false);
}

void UserIterator::SeekToLast() {
  if (!upper_bound_.empty()) return SeekBefore(upper_bound_);
  Start(false);
  merge_.SeekToLast();
  FindBackward();
}

void UserIterator::SeekForPrev(Slice key) {
  if (BeyondUpper(key)) return SeekBefore(upper_bound_);
  std::string successor(key);
  successor.push_back('\0');
  SeekBefore(successor);
}

void UserIterator::SeekBefore(Slice key) {
  Start(false);
  merge_.SeekBefore(key);
  FindBackward();
}

void UserIterator::Next() {
  if (!value_status_.ok()) value_status_ = Status();
  if (forward_) {
    merge_.Next();
  } else {
    forward_ = true;
    merge_.Seek(key_);
  }
  FindForward(true);
}

void UserIterator::Prev() {
  if (forward_) {
    const std::string from = std::exchange(key_, {});
    return SeekBefore(from);
  }
  value_status_ = Status();
  FindBackward();
}

// Goes on to the first entry to be shown; with `skip_key` all versions of key_ are passed over.
void UserIterator::FindForward(bool skip_key) {
  valid_ = false;
  value_read_ = false;
  for (; merge_.Valid(); merge_.Next()) {
    const table::Entry& entry = merge_.entry();
    if (skip_key && SameKey(entry.key)) continue;
    if (BeyondUpper(entry.key)) return;
    if (entry.lsn > sources_.snapshot) continue;
    KeepKey(entry.key);
    if (!Hidden(entry.key, entry.type, entry.lsn)) {
      valid_ = true;
      return;
    }
    skip_key = true;
  }
}

// Goes back to the last key to be shown at or before the place where the merge stands.
void UserIterator::FindBackward() {
  valid_ = false;
  value_read_ = false;
  while (merge_.Valid()) {
    if (merge_.key() < Slice(lower_bound_)) return;
    uint64_t lsn = 0;
    const bool any = KeepNewest(&lsn);
    if (!merge_.status().ok()) return;  // a newer version may be missing
    if (any && !Hidden(key_, kept_type_, lsn)) {
      valid_ = true;
      return;
    }
  }
}

// Walks over the versions of one key, oldest first, and keeps the newest at the snapshot.
bool UserIterator::KeepNewest(uint64_t* lsn) {
  bool any = false;
  KeepKey(merge_.key());
  for (; merge_.Valid() && SameKey(merge_.key()); merge_.Prev()) {
    if (merge_.lsn() > sources_.snapshot) continue;
    any = true;
    *lsn = merge_.lsn();
    kept_type_ = merge_.type();
    kept_value_.assign(merge_.value());
  }
  return any;
}

Slice UserIterator::value() {
  const log::RecordType type = forward_ ? merge_.type() : kept_type_;
  const Slice stored = forward_ ? merge_.value() : Slice(kept_value_);
  return type == log::RecordType::kValueRef ? ReadSeparated(stored) : stored;
}

Slice UserIterator::ReadSeparated(Slice reference) {
  if (!value_read_) {
    value_status_ = sources_.values->ResolveReference(reference, Into(&separated_value_));
    if (!value_status_.ok()) separated_value_.clear();
    value_read_ = true;
  }
  return separated_value_;
}

class FailedIterator final : public engine::Iterator {
 public:
  explicit FailedIterator(Status status) : status_(std::move(status)) {}
  bool Valid() const override { return false; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(Slice /*key*/) override {}
  void SeekForPrev(Slice /*key*/) override {}
  void Next() override {}
  void Prev() override {}
  Slice key() const override { return {}; }
  Slice value() override { return {}; }
  Status status() const override { return status_; }

 private:
  const Status status_;
};

}  // namespace

void AddVersion(IteratorSources* sources) {
  const Version& version = *sources->version;
  std::vector<std::shared_ptr<PooledMemTable>> memory = version.immutables;
  if (version.active != nullptr) memory.insert(memory.begin(), version.active);
  for (const std::shared_ptr<PooledMemTable>& handle : memory) {
    if (handle->base_lsn() > sources->snapshot || handle->table().empty()) continue;
    // Either a quiesced position in this MemTable, or behind all of it.
    std::shared_ptr<const SortedView> view = handle->table().NewView(sources->snapshot);
    for (table::RangeTombstone& tombstone : view->RangeTombstones()) {
      sources->tombstones.push_back(std::move(tombstone));
    }
    sources->entries.push_back(view->NewIterator(true));
    sources->views.push_back(std::move(view));
  }
  for (const std::shared_ptr<const Run>& run : version.runs) {
    sources->entries.push_back(NewRunIterator(*run, true));
    if (!run->has_range_tombstones()) continue;
    for (const std::shared_ptr<TableHandle>& table : run->tables()) {
      const std::vector<table::RangeTombstone>& tombstones = table->table().range_tombstones();
      sources->tombstones.insert(sources->tombstones.end(), tombstones.begin(), tombstones.end());
    }
  }
  if (version.base != nullptr) sources->entries.push_back(version.base->NewIterator());
}

std::unique_ptr<engine::Iterator> NewFailedIterator(Status status) {
  return std::make_unique<FailedIterator>(std::move(status));
}

std::unique_ptr<engine::Iterator> NewUserIterator(IteratorSources sources,
                                                  const engine::IteratorOptions& options) {
  return std::make_unique<UserIterator>(std::move(sources), options);
}

}  // namespace quire::lsm
