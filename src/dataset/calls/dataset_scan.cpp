#include "dataset/calls/dataset_scan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/core/out_of_memory.h"
#include "base/threads/forked_child.h"
#include "dataset/part/pair_buffer.h"
#include "table/entry_iterator.h"

namespace quire::dataset {
namespace {

class DatasetScanImpl final : public DatasetScan {
 public:
  explicit DatasetScanImpl(ScanOptions options)
      : options_(std::move(options)), next_rank_(options_.rank_begin) {
    Move([this] { return Settle(); });
  }
  explicit DatasetScanImpl(const Status& status) : status_(status) {}

  bool Valid() const override { return current_ != nullptr && process_.MayCall(); }
  Slice key() const override { return current_->key(); }
  Slice value() const override { return options_.value_of ? Slice(value_) : current_->value(); }
  uint32_t rank() const override { return RankOf(current_->lsn()); }
  Status status() const override {
    QUIRE_RETURN_IF_ERROR(process_.Check("the scan"));
    return status_;
  }

  void Next() override {
    if (!process_.MayCall()) return;
    Move([this] {
      PassCurrent();
      return Settle();
    });
  }

 private:
  // Takes a step. A failure, also for lack of memory, ends the scan: tables may stand where nothing
  // can be read.
  template <typename Step>
  void Move(const Step& step) {
    status_ = base::OrOutOfMemory(step);
    if (!status_.ok()) current_ = nullptr;  // which may stand on what a newer table has
  }

  // Moves behind the current pair in all tables: older tables have the same pair if it was put
  // earlier, too.
  void PassCurrent() {
    const std::string key(current_->key());
    const uint64_t lsn = current_->lsn();
    for (const auto& table : tables_) {
      if (table->Valid() && table->lsn() == lsn && table->key() == key) table->Next();
    }
  }

  // Moves to the first pair that is left, or behind the last.
  Status Settle() {
    current_ = nullptr;
    while (true) {
      for (const auto& table : tables_) {
        QUIRE_RETURN_IF_ERROR(table->status());
        if (table->Valid() && (current_ == nullptr || Before(*table, *current_))) {
          current_ = table.get();
        }
      }
      if (current_ != nullptr) return Read();
      if (next_rank_ >= options_.rank_end) return Status();
      QUIRE_RETURN_IF_ERROR(OpenNext());
    }
  }

  // Orders entries by key; with equal keys the larger number comes first. If both are equal,
  // Settle() keeps the entry that it met first: that of the newest table.
  static bool Before(const table::EntryIterator& a, const table::EntryIterator& b) {
    const int order = a.key().compare(b.key());
    return order != 0 ? order < 0 : a.lsn() > b.lsn();
  }

  Status Read() {
    if (current_->lsn() == 0) {
      return Status(Code::kCorruption, "an epoch has an entry of another kind");
    }
    if (!options_.value_of) return Status();
    return options_.value_of(rank(), current_->value(), &value_);
  }

  Status OpenNext() {
    tables_.clear();
    QUIRE_ASSIGN_OR_RETURN(part_, options_.part_of(next_rank_++));
    for (size_t number = part_->table_count(); number-- > 0;) {
      QUIRE_ASSIGN_OR_RETURN(const auto table, part_->TableAt(number));
      tables_.push_back(table->NewIterator(false));
      tables_.back()->SeekToFirst();
    }
    return Status();
  }

  const base::OwnProcess process_;
  const ScanOptions options_;
  uint32_t next_rank_ = 0;
  std::shared_ptr<PartReader> part_;
  std::vector<std::unique_ptr<table::EntryIterator>> tables_;  // the newest first
  table::EntryIterator* current_ = nullptr;
  std::string value_;
  Status status_;
};

}  // namespace

std::unique_ptr<DatasetScan> NewDatasetScan(ScanOptions options) {
  return std::make_unique<DatasetScanImpl>(std::move(options));
}

std::unique_ptr<DatasetScan> NewFailedScan(const Status& status) {
  return std::make_unique<DatasetScanImpl>(status);
}

}  // namespace quire::dataset
