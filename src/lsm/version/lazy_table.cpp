#include "lsm/version/lazy_table.h"

#include "lsm/version/manifest.h"
#include "lsm/version/recovery.h"

namespace quire::lsm {

Result<const table::Table*> LazyTable::Use() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (table_ == nullptr) {
    Result<std::shared_ptr<table::Table>> table = OpenListed(source_->place, info_);
    if (table.status().code() == Code::kNotFound) {
      return MissingFile(source_->place.directory + "/" + TableName(info_.ssid), "a table");
    }
    QUIRE_ASSIGN_OR_RETURN(table_, std::move(table));
    opened_.store(table_.get(), std::memory_order_release);
  }
  return table_.get();
}

void LazyTable::PrefetchFilter(uint64_t hash) const {
  if (const auto* const opened = opened_.load(std::memory_order_acquire)) {
    opened->PrefetchFilter(hash);
  }
}

// If the table cannot be opened, Get returns the reason.
bool LazyTable::MayContain(uint64_t hash) const {
  if (const auto* const opened = opened_.load(std::memory_order_acquire)) {
    return opened->MayContain(hash);
  }
  const Result<const table::Table*> table = Use();
  return !table.ok() || (*table)->MayContain(hash);
}

Status LazyTable::Get(Slice key, uint64_t hash, uint64_t snapshot,
                      table::LookupResult* found) const {
  if (const auto* const opened = opened_.load(std::memory_order_acquire)) {
    return opened->Get(key, hash, snapshot, found);
  }
  QUIRE_ASSIGN_OR_RETURN(const table::Table* const table, Use());
  return table->Get(key, hash, snapshot, found);
}

const std::vector<table::RangeTombstone>& LazyTable::range_tombstones() const {
  static const std::vector<table::RangeTombstone> kNone;
  return kNone;
}

std::unique_ptr<table::EntryIterator> LazyTable::NewIterator(bool fill_cache) const {
  const Result<const table::Table*> table = Use();
  if (!table.ok()) return table::NewEmptyIterator(table.status());
  return (*table)->NewIterator(fill_cache);
}

Status LazyTable::Verify() const {
  QUIRE_ASSIGN_OR_RETURN(const table::Table* const table, Use());
  return table->Verify();
}

Status LazyTable::VerifyChecksums() const {
  QUIRE_ASSIGN_OR_RETURN(const table::Table* const table, Use());
  return table->VerifyChecksums();
}

Result<std::vector<table::LostRange>> LazyTable::FindLostRanges() const {
  QUIRE_ASSIGN_OR_RETURN(const table::Table* const table, Use());
  return table->FindLostRanges();
}

}  // namespace quire::lsm
